"""The top of the report of a run folder."""

import pytest

from headwise.studies.page import _facts


@pytest.mark.parametrize(
    ("languages", "shown"),
    [
        (["zh", "tr"], "Chinese, Turkish"),
        ("zh, tr", "Chinese, Turkish"),
        ("all", "all languages"),
        (["ar", "de", "en", "fi", "hi", "ja", "th", "tr", "zh"], "9 languages"),
    ],
)
def test_languages_are_named_or_counted(languages: object, shown: str) -> None:
    config = {"study": "prune-then-tune", "languages": languages}
    assert _facts(config, "phrasebook") == ("Prune-then-tune study", "data: phrasebook", shown)


@pytest.mark.parametrize("languages", [None, [], 5])
def test_languages_that_are_not_listed_are_left_out(languages: object) -> None:
    assert _facts({"languages": languages}, "/home/me/reviews.csv") == ("Scoring run", "data file: reviews.csv")
