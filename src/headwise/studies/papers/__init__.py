"""Numbers that papers report, to be shown beside those of a study."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
#: The paper of `ma_tables`, `ma_controls` and `ma_sources`.
MA_PAPER = (
    "Ma, Zhang, Lou, Wang, Vosoughi (2021): Contributions of Transformer Attention Heads in Multi- and Cross-lingual "
    "Tasks"
)
MA = f"{MA_PAPER}, tables 2 to 5"
#: The paper of `voita_rows`.
VOITA_PAPER = (
    "Voita, Talbot, Moiseev, Sennrich, Titov (2019): Analyzing Multi-Head Self-Attention: Specialized Heads Do the "
    "Heavy Lifting, the Rest Can Be Pruned"
)


@cache
def ma_tables(task: str, mode: str, source: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Tables 2 to 4 of Ma et al.: F1 without pruning, and the best F1 on test with up to 12 heads pruned.

    Args:
        task: `pos`, `ner` or `slots`.
        mode: `cross` or `multi`.
        source: The source language.

    Returns:
        The two numbers by model and target language; empty if the paper has none.

    Example:
        >>> ma_tables("pos", "cross", "en")["XLM-R"]["zh"]
        (41.1, 46.18)
    """
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for row in _rows("ma-2021.tsv"):
        if (row["task"], row["mode"], row["source"]) == (task, mode, source):
            found.setdefault(row["model"], {})[row["target"]] = float(row["unpruned"]), float(row["pruned"])
    return found


@cache
def ma_controls(task: str, mode: str) -> dict[str, tuple[float, float]]:
    """Table 5 of Ma et al.: differences from the full mBERT with the highest-ranked and with random heads pruned.

    The source language is English, and the number of heads is the best on test for both.

    Args:
        task: `pos` or `ner`.
        mode: `cross` or `multi`.

    Example:
        >>> ma_controls("ner", "cross")["zh"]
        (-1.74, -2.44)
    """
    return {
        row["target"]: (float(row["highest"]), float(row["random"]))
        for row in _rows("ma-2021-controls.tsv")
        if (row["task"], row["mode"]) == (task, mode)
    }


@cache
def ma_sources(task: str) -> dict[str, dict[str, float]]:
    """Table 6 of Ma et al.: F1 of mBERT tuned on four source languages and tested on a fifth one.

    Args:
        task: `pos` or `ner`.

    Returns:
        The numbers by target language and ranking (`unpruned`, `MD`, `SD`, `EC`); the numbers of heads are the best on
        test. Empty if the paper has none.

    Example:
        >>> ma_sources("ner")["ar"]
        {'unpruned': 35.9, 'MD': 40.78, 'SD': 41.53, 'EC': 40.78}
    """
    names = ("unpruned", "MD", "SD", "EC")
    rows = (row for row in _rows("ma-2021-sources.tsv") if row["task"] == task)
    return {row["target"]: {name: float(row[name]) for name in names} for row in rows}


@dataclass(frozen=True)
class VoitaRow:
    """A row of table 2 of Voita et al.

    Attributes:
        data: The training data.
        heads: Number of heads in the encoder, in the decoder and between them.
        trained: BLEU of the pruned model.
        scratch: BLEU of the same heads trained from scratch; None for the whole model.
    """

    data: str
    heads: tuple[int, int, int]
    trained: float
    scratch: float | None


@cache
def voita_rows() -> tuple[VoitaRow, ...]:
    """Table 2 of Voita et al.: BLEU with gates in all attention, English to Russian.

    Example:
        >>> voita_rows()[1]
        VoitaRow(data='WMT', heads=(14, 31, 30), trained=29.62, scratch=29.47)
    """
    return tuple(
        VoitaRow(
            row["data"],
            (int(row["encoder"]), int(row["decoder"]), int(row["cross"])),
            float(row["trained"]),
            float(row["scratch"]) if row["scratch"] else None,
        )
        for row in _rows("voita-2019.tsv")
    )


def _rows(name: str) -> list[dict[str, str]]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))
