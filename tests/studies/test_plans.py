"""The plans that come with the package."""

import pytest

from headwise.studies import find_plan
from headwise.studies.plan_files import FOLDER, plan_names
from headwise.support.typed import read_yaml

TUNED = (
    "compare-models", "l0-path", "layers", "low-resource", "multi-source", "prune-then-tune-ner",
    "prune-then-tune-pos", "prune-then-tune-slots", "random-share", "rank-then-tune", "recovery",
)  # fmt: skip


@pytest.mark.parametrize("name", TUNED)
@pytest.mark.parametrize("size", ["tiny", "small", "full"])
def test_plans_of_studies_that_tune_have_three_sizes(name: str, size: str) -> None:
    assert find_plan(name, [f"size={size}", "data=d"]).scoring.data == "d"


def test_tiny_is_the_default_size() -> None:
    sizes = {name: read_yaml(FOLDER / f"{name}.yaml").get("sizes") for name in plan_names()}
    assert set(TUNED) <= {name for name, found in sizes.items() if found}
    assert {next(iter(found)) for found in sizes.values() if found} == {"tiny"}
