"""The tables and plots of `docs/results/roles-tables.md`: roles of real models, one part after the other.

Parts (`--only` chooses some):

- `phrasebook`: e5-small-pos on the 14 languages of the phrasebook, and alignment heads of English with the others;
- `pud`: e5-small-pos on 17 languages of PUD, and alignment heads of English with nine of them;
- `nli`, `intents`: e5-small tuned for other tasks on the same sentences as `phrasebook`, compared with it;
- `opus-trees`: the encoder of a translation model (`--opus FOLDER`) on English trees of PUD;
- `opus`: its encoder, decoder and cross-attention on FLORES, English to French;
- `smollm2`: a causal model (smollm2-135m) on trees of PUD in four languages, with alignment heads.

Parts that need published data read them from the folder HEADWISE_DATA. Every part has its run folder in `--runs`, so
the same command resumes after an interruption. The page contains the parts that were run, in this order.

    HEADWISE_DATA=data python -m benchmarks.roles_tables [--only phrasebook,pud] [--opus FOLDER] [--limit 20]
        [--scores phrasebook=runs/scores] [--mean-scores phrasebook=runs/means] [--masks phrasebook=runs/masks]
"""

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headwise import HeadwiseError
from headwise.data.folders import default_folder
from headwise.files import write_bytes
from headwise.masks import HeadMask
from headwise.roles import HeadRoles, Joined
from headwise.roles.page import page_text
from headwise.roles.run import roles
from headwise.scoring.run_folder import load_scores

PUD = "ar,cs,de,en,es,fr,hi,id,it,ja,ko,pl,pt,ru,sv,tr,zh"
PUD_PAIRS = "en-ar,en-de,en-es,en-fr,en-hi,en-ja,en-ru,en-tr,en-zh"
PHRASEBOOK_PAIRS = "en-ar,en-de,en-es,en-fr,en-hi,en-ja,en-ko,en-ru,en-sw,en-th,en-tr,en-vi,en-zh"
INTRODUCTION = """# Tables of what heads do

Made by `python -m benchmarks.roles_tables`. See [the summary](roles.md), and [What heads do](../roles.md) for the
statistics and thresholds.
"""


@dataclass(frozen=True)
class Part:
    """A model and the data that its roles are measured on.

    Attributes:
        name: Name of the part.
        model: Name of the model; `opus` stands for the folder of `--opus`.
        published: Whether the data are in the folder HEADWISE_DATA; otherwise the phrasebook.
        task: The task; empty for trees.
        languages: The languages.
        pairs: Pairs of languages.
        other: The part that it is compared with.
    """

    name: str
    model: str
    published: bool = False
    task: str = ""
    languages: str = "all"
    pairs: str = ""
    other: str = ""


PARTS = (
    Part("phrasebook", "e5-small-pos", pairs=PHRASEBOOK_PAIRS),
    Part("pud", "e5-small-pos", True, languages=PUD, pairs=PUD_PAIRS, other="phrasebook"),
    Part("nli", "e5-small-nli", other="phrasebook"),
    Part("intents", "e5-small-intents", other="phrasebook"),
    Part("opus-trees", "opus", True, languages="en"),
    Part("opus", "opus", True, "translation", "en-fr"),
    Part("smollm2", "smollm2-135m", True, languages="en,de,es,fr", pairs="en-de,en-es,en-fr"),
)


def main() -> None:
    options = read_options()
    done: dict[str, HeadRoles] = {}
    texts, figures = [INTRODUCTION], {}
    for part in PARTS:
        if options.only and part.name not in options.only:
            continue
        if reason := missing(part, options):
            print(f"{part.name}: left out: {reason}", flush=True)
            continue
        start = time.perf_counter()
        done[part.name] = measure(part, options)
        seconds = time.perf_counter() - start
        page = options.page.with_name(f"{options.page.stem}-{part.name}.md")
        texts.append(page_text(done[part.name], page, joined(part, options, done)))
        write_bytes(options.page, "\n".join(texts).encode())  # after every part, so that an interruption loses none
        units = sum(each.units for each in done[part.name].values())
        figures[part.name] = {"units": units, "seconds": round(seconds, 1)}
        print(f"{part.name}: {units:,.0f} units, {seconds:.0f} s", flush=True)
    print(json.dumps(figures))


def read_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of parts, separated by commas; all by default")
    parser.add_argument("--opus", type=Path, help="folder of an English-French translation model")
    parser.add_argument("--limit", type=int, help="maximum number of sentences per language")
    parser.add_argument("--split", default="dev", help="part of the data: dev, test or all")
    parser.add_argument("--runs", type=Path, default=Path("runs", "roles-tables"), help="folder of the run folders")
    parser.add_argument("--page", type=Path, default=Path("docs", "results", "roles-tables.md"), help="the page")
    for name in ("scores", "mean-scores", "masks"):
        parser.add_argument(f"--{name}", action="append", default=[], metavar="PART=FOLDER", help=f"{name} of a part")
    options = parser.parse_args()
    options.only = [name for name in options.only.split(",") if name]
    if unknown := set(options.only) - {part.name for part in PARTS}:
        parser.error(f"--only: no part {min(unknown)!r}: there are {', '.join(part.name for part in PARTS)}")
    return options


def missing(part: Part, options: argparse.Namespace) -> str:
    """What a part needs and does not have; empty if it has everything."""
    if part.published and default_folder() is None:
        return "set HEADWISE_DATA to the folder of published data"
    return "give --opus FOLDER" if part.model == "opus" and options.opus is None else ""


def measure(part: Part, options: argparse.Namespace) -> HeadRoles:
    """The roles of a part; a finished run is only read."""
    model = options.opus if part.model == "opus" else part.model
    found = roles(
        str(model), data=str(default_folder()) if part.published else "phrasebook", task=part.task,
        languages=part.languages, pairs=part.pairs, split=options.split, limit=options.limit,
        out=options.runs / part.name,
    )  # fmt: skip
    data = "the phrasebook" if not part.published else "FLORES" if part.task == "translation" else "PUD"
    return replace(found, about={**found.about, "model": Path(model).name, "data": data})


def joined(part: Part, options: argparse.Namespace, done: dict[str, HeadRoles]) -> Joined:
    """The scores, masks and other roles of a part."""
    files = [file for folder in named(options.masks, part) for file in sorted(folder.glob("*.json"))]
    found: dict[str, Any] = {
        "scores": merged(load_scores(folder) for folder in named(options.scores, part)),
        "mean_scores": merged(load_scores(folder) for folder in named(options.mean_scores, part)),
        "masks": [HeadMask.load(file) for file in files],
        "other": done.get(part.other),
    }
    return Joined(**found)


def named(given: Sequence[str], part: Part) -> list[Path]:
    """The folders that an option names for a part."""
    return [Path(folder) for name, _, folder in (each.partition("=") for each in given) if name == part.name]


def merged(scores: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The scores of several runs."""
    return {language: each for found in scores for language, each in found.items()}


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
