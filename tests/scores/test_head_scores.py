"""HeadScores: values with their certainty and their origin."""

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadScores, HeadwiseError, Provenance
from headwise.scores import stability
from headwise.scores.tables import load_table, save_table
from headwise.stats import Decision

pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

SCORES = HeadScores(
    players=("encoder.0.0", "encoder.0.1", "encoder.1.0"),
    value=(0.25, -0.5, 0.0),
    stderr=(0.01, 0.02, math.nan),
    count=(100, 80, 0),
    decision=("helpful", "harmful", "undecided"),
    provenance=Provenance(
        method="stars",
        estimand="full",
        game="probability",
        language="zh",
        seed=7,
        units=1234.5,
        error_rate=0.1,
        confidence="betting",
        model="tiny",
        fingerprint="f",
        data="d",
        versions={"torch": "2"},
    ),
)


def scores_of(value: tuple[float, ...], stderr: float = 0.01, decision: str = "") -> HeadScores:
    """Scores whose decisions are given by letters: `-` harmful, `+` helpful, `?` undecided."""
    words: dict[str, Decision] = {"-": "harmful", "+": "helpful", "?": "undecided"}
    n = len(value)
    decided = tuple(words[letter] for letter in decision or "?" * n)
    names = tuple(f"encoder.0.{head}" for head in range(n))
    return HeadScores(names, value, (stderr,) * n, (9,) * n, decided, Provenance("stars", "full"))


def test_scores_survive_saving(tmp_path: Path) -> None:
    SCORES.save(tmp_path / "scores.json")
    loaded = HeadScores.load(tmp_path / "scores.json")
    assert loaded.provenance == SCORES.provenance
    assert (loaded.players, loaded.value, loaded.count, loaded.decision) == (
        SCORES.players,
        SCORES.value,
        SCORES.count,
        SCORES.decision,
    )
    assert loaded.stderr[:2] == SCORES.stderr[:2]
    assert math.isnan(loaded.stderr[2])
    assert "NaN" not in (tmp_path / "scores.json").read_text()


def test_players_can_be_asked_for_by_decision() -> None:
    assert SCORES.decided("harmful") == ("encoder.0.1",)
    assert SCORES.values().tolist() == [0.25, -0.5, 0.0]


def test_numbers_of_any_library_and_size_can_be_saved(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "value": (np.float32(0.5), math.nan, -math.inf),
        "stderr": (math.inf, 0.0, math.nan),
        "count": (np.int64(1), 2, 3),
    }
    odd = dataclasses.replace(SCORES, **columns)
    odd.save(tmp_path / "scores.json")
    json.loads((tmp_path / "scores.json").read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    loaded = HeadScores.load(tmp_path / "scores.json")
    assert loaded.value[0] == 0.5
    assert math.isnan(loaded.value[1])
    assert (loaded.value[2], loaded.stderr[0]) == (-math.inf, math.inf)


def test_unknown_decisions_are_refused() -> None:
    decision: Any = ("helpful", "evil", "harmful")
    with pytest.raises(HeadwiseError, match="one of harmful, helpful, undecided, not 'evil'"):
        dataclasses.replace(SCORES, decision=decision)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(HeadwiseError, match=r"one entry per player.*'value': 1"):
        HeadScores(("a.0.0", "a.0.1"), (1.0,), (0.0, 0.0), (1, 1), ("helpful", "helpful"), Provenance("m", "full"))


@pytest.mark.parametrize("fault", ["decision", "missing", "players"])
def test_a_broken_file_is_named(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    SCORES.save(path)
    data = json.loads(path.read_text())
    if fault == "decision":
        data["rows"][0]["decision"] = "bad"
    elif fault == "missing":
        del data["rows"][1]["value"]
    else:
        data["players"] = "neurons"
    path.write_text(json.dumps(data))
    with pytest.raises(HeadwiseError, match=r"scores\.json: not a complete file of scores"):
        HeadScores.load(path)


def test_players_are_ranked_from_the_lowest_and_only_with_a_value() -> None:
    assert scores_of((0.3, -0.1, math.nan, -0.1)).ranked() == ("encoder.0.1", "encoder.0.3", "encoder.0.0")


def test_an_interval_reaches_so_many_standard_errors() -> None:
    low, high = scores_of((0.5, -0.5), stderr=0.1).interval(0.9)
    assert low.tolist() == pytest.approx([0.5 - 0.1644854, -0.5 - 0.1644854])
    assert high.tolist() == pytest.approx([0.5 + 0.1644854, -0.5 + 0.1644854])
    with pytest.raises(HeadwiseError, match="between 0 and 1, not 95"):
        SCORES.interval(95)


def test_comparing_tells_where_scores_differ() -> None:
    one = scores_of((0.1, 0.2, -0.3, 0.4, 0.02), decision="++-+?")
    two = scores_of((0.2, 0.3, -0.4, -0.1, -0.02), decision="+--??")
    found = one.compare(two)
    assert found.compared == 5
    ranks_apart = 1 + 1 + 0 + 9 + 1  # ranks 3 4 1 5 2 and 4 5 1 2 3
    assert found.correlation.rho == pytest.approx(1 - 6 * ranks_apart / (5 * 24))
    assert (found.signs.share, found.signs.compared) == (0.6, 5)
    assert (found.clear_signs.share, found.clear_signs.compared) == (0.75, 4)
    assert found.jaccard == 0.5
    assert found.opposite_decisions == ("encoder.0.1",)
    assert found.opposite_signs == ("encoder.0.3",)
    assert json.loads(json.dumps(found.to_dict()))["opposite_signs"] == ["encoder.0.3"]


def test_players_without_a_value_are_not_compared() -> None:
    found = scores_of((0.1, math.nan, 0.3, 0.2)).compare(scores_of((0.2, 0.3, math.nan, 0.4)))
    assert found.compared == found.signs.compared == 2
    assert found.correlation.rho == 1
    constant = scores_of((0.0, 0.0)).compare(scores_of((0.0, 0.0)))
    assert constant.to_dict()["correlation"]["rho"] is None


def test_different_things_are_not_compared() -> None:
    with pytest.raises(HeadwiseError, match=r"3 players \(encoder.0.0 … encoder.1.0\).* 2 players"):
        SCORES.compare(scores_of((0.1, 0.2)))
    other = dataclasses.replace(SCORES.provenance, estimand="truncated(0.5)")
    with pytest.raises(HeadwiseError, match=r"estimate full cannot .* estimate truncated\(0\.5\): compare"):
        SCORES.compare(dataclasses.replace(SCORES, provenance=other))


def test_stability_is_the_mean_over_pairs() -> None:
    runs = [
        scores_of((-0.3, -0.2, 0.1), decision="--?"),
        scores_of((-0.2, -0.3, 0.1), decision="-??"),
        scores_of((-0.3, -0.2, 0.1), decision="--+"),
    ]
    found = stability(runs)
    assert (found.runs, found.harmful) == (3, ("encoder.0.0",))
    assert found.jaccard == pytest.approx((0.5 + 0.5 + 1) / 3)
    assert found.correlation == pytest.approx((0.5 + 0.5 + 1) / 3)
    with pytest.raises(HeadwiseError, match="at least 2 runs, not 1"):
        stability(runs[:1])


def test_many_scores_survive_in_one_table(tmp_path: Path) -> None:
    odd = dataclasses.replace(
        scores_of((math.inf, -math.inf)), kind="layers", provenance=Provenance("stars", "full", language="sw")
    )
    save_table([SCORES, odd], tmp_path / "scores.parquet")
    first, second = load_table(tmp_path / "scores.parquet")
    assert (first.provenance, first.decision, first.value) == (SCORES.provenance, SCORES.decision, SCORES.value)
    assert math.isnan(first.stderr[2])
    assert second == odd
    assert [path.name for path in tmp_path.iterdir()] == ["scores.parquet"]


def test_a_table_is_one_that_others_can_read(tmp_path: Path) -> None:
    save_table([SCORES], tmp_path / "scores.parquet")
    table = parquet.read_table(tmp_path / "scores.parquet")
    assert table.column_names == ["language", "player", "value", "stderr", "count", "decision"]
    assert table.slice(1, 1).to_pylist() == [
        {
            "language": "zh",
            "player": "encoder.0.1",
            "value": -0.5,
            "stderr": 0.02,
            "count": 80,
            "decision": "harmful",
        }
    ]


def test_a_table_needs_pyarrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(HeadwiseError, match=r"needs the package pyarrow: pip install 'headwise\[cli\]'"):
        save_table([SCORES], tmp_path / "scores.parquet")


def test_a_file_that_is_no_table_of_scores_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    with pytest.raises(HeadwiseError, match=r"scores\.parquet: no such file"):
        load_table(path)
    with pytest.raises(HeadwiseError, match="cannot be read"):
        load_table(tmp_path)
    path.write_text("no parquet")
    with pytest.raises(HeadwiseError, match=r"scores\.parquet: not a table of scores"):
        load_table(path)
    plain = pyarrow.table({"player": ["encoder.0.0"]})
    parquet.write_table(plain, path)
    with pytest.raises(HeadwiseError, match=r"scores\.parquet: not a table of scores"):
        load_table(path)


@pytest.mark.parametrize("about", [b"[" * 5000, b"3", b'{"a": ' * 3000, b"null", b"[1]"])
def test_a_table_that_is_described_in_another_way_is_named(tmp_path: Path, about: bytes) -> None:
    path = tmp_path / "scores.parquet"
    save_table([SCORES], path)
    parquet.write_table(parquet.read_table(path).replace_schema_metadata({b"headwise": about}), path)
    with pytest.raises(HeadwiseError, match=r"scores\.parquet: not a table of scores"):
        load_table(path)


def test_a_damaged_table_is_named_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    save_table([SCORES], path)
    path.write_bytes(b"\x00" + path.read_bytes())
    with pytest.raises(HeadwiseError, match=r"scores\.parquet: ") as error:
        load_table(path)
    assert "\n" not in str(error.value)


def test_a_table_with_rows_lost_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    save_table([SCORES], path)
    parquet.write_table(parquet.read_table(path).slice(1), path)
    with pytest.raises(HeadwiseError, match=r"not a complete table of scores: .*2 rows"):
        load_table(path)


def test_a_table_that_cannot_be_written_is_named() -> None:
    with pytest.raises(HeadwiseError, match=r"/proc/nowhere/scores\.parquet: cannot be written"):
        save_table([SCORES], "/proc/nowhere/scores.parquet")


def test_shrunk_values_survive_saving_and_files_without_them_load(tmp_path: Path) -> None:
    both = dataclasses.replace(SCORES, stderr=(0.01, 0.02, 0.03), shrunk=(0.2, -0.4, 0.1), shrunk_error=(0.1, 0.2, 0.3))
    both.save(tmp_path / "scores.json")
    assert HeadScores.load(tmp_path / "scores.json") == both
    assert both.to_dict()["rows"][1]["shrunk"] == -0.4
    save_table([both, both], tmp_path / "scores.parquet")
    assert load_table(tmp_path / "scores.parquet") == (both, both)
    assert "shrunk" not in SCORES.to_dict()["rows"][0]
    save_table([SCORES, both], tmp_path / "scores.parquet")
    assert [each.shrunk for each in load_table(tmp_path / "scores.parquet")] == [(), ()]
    with pytest.raises(HeadwiseError, match="shrunk and shrunk_error"):
        dataclasses.replace(SCORES, shrunk=(0.2,))
