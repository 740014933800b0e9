"""The table of the benchmark of masks without labels, against means by hand."""

from benchmarks.best_masks import Gain
from benchmarks.label_free import Row, summary


def row(language: str, gain: float, p_value: float, labelled: float) -> Row:
    return Row("pud", language, "top-probability", {"lowest": Gain(gain, -9, 9, p_value, 5)}, {"lowest": labelled})


def test_the_share_is_that_of_the_mean_gain_with_labels() -> None:
    rows = [row("zh", 3.0, 0.001, 4.0), row("tr", -1.0, 0.01, 6.0), row("hi", 0.5, 0.4, 5.0)]
    found = summary(rows)["pud"]["top-probability lowest"]
    assert found == {"gain": 0.83, "better": 1, "worse": 1, "of": 3, "labelled": 5.0, "share": 0.17}
