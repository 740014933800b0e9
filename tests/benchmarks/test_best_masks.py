"""The tables of the benchmark of best masks, against counts by hand."""

from benchmarks.best_masks import Gain, Row, reliability, summary


def row(language: str, chosen: str, loss: float, best: Gain, likely: Gain) -> Row:
    ahead = {"likely": (best.gain - likely.gain, 0.01)}
    return Row("pud", language, 70.0, chosen, (1.0, -1.0, 3.0, loss), 9.0, 0.5, {"best": best, "likely": likely}, ahead)


ROWS = [
    row("zh", "likely", 0.0, Gain(2.0, 1.0, 3.0, 0.001, 9), Gain(2.0, 1.0, 3.0, 0.001, 9)),
    row("tr", "none", 0.0, Gain(0.0, 0.0, 0.0, 1.0, 0), Gain(-1.5, -2.0, -1.0, 0.01, 5)),
    row("sw", "refined", 0.15, Gain(-0.5, -1.5, 0.5, 0.3, 4), Gain(0.4, -0.5, 1.5, 0.4, 2)),
    row("hi", "refined", 0.11, Gain(4.0, 2.0, 5.0, 0.001, 4), Gain(0.4, -0.5, 1.5, 0.4, 2)),
]


def test_the_summary_counts_languages_and_chosen_kinds() -> None:
    found = summary(ROWS)
    assert found["pud"] == found["all"]
    assert found["all"] == {
        "best": {"gain": 1.375, "better": 2, "worse": 0, "of": 4},
        "likely": {"gain": 0.325, "better": 1, "worse": 1, "of": 4, "best_better": 2, "best_worse": 1},
    }
    assert found["chosen"] == {"likely": 1, "none": 1, "refined": 2}
    assert (found["units"], found["minutes"]) == (9, 0.5)
    assert found["inside_interval"] == round(2 / 3, 3)  # 4 points are above the interval of Hindi


def test_the_reliability_table_has_only_masks_that_were_chosen() -> None:
    assert reliability(ROWS) == [
        {"from": 0.0, "to": 0.01, "masks": 1, "stated": 0.0, "lost": 0.0},
        {"from": 0.1, "to": 0.2, "masks": 2, "stated": 0.13, "lost": 0.5},
    ]
    assert reliability([]) == []
