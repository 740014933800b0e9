"""The files for Slurm and Kubernetes: they are well formed, and use options that exist."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from typer.main import get_command

from headwise.cli.commands import app

FILES = Path(__file__).parents[2] / "docs" / "files"


def options_of(text: str) -> set[str]:
    """The options of the command `headwise score` in a text."""
    joined = text.replace("\\\n", " ")
    [command] = [line for line in joined.splitlines() if line.strip().startswith("headwise score")]
    return set(re.findall(r"--[a-z-]+", command))


def known_options() -> set[str]:
    score = get_command(app).commands["score"]  # type: ignore[attr-defined]
    return {name for parameter in score.params for name in parameter.opts}


def test_the_slurm_script_is_valid_bash() -> None:
    subprocess.run(["bash", "-n", str(FILES / "headwise.sbatch")], check=True)
    assert options_of((FILES / "headwise.sbatch").read_text()) <= known_options()


def test_the_ray_job_names_its_volume_and_its_version() -> None:
    claim, job = yaml.safe_load_all((FILES / "headwise-rayjob.yaml").read_text())
    cluster = job["spec"]["rayClusterSpec"]
    head = cluster["headGroupSpec"]["template"]["spec"]
    assert head["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert options_of(job["spec"]["entrypoint"]) <= known_options()
    assert f"ray[default]=={cluster['rayVersion']}" in (FILES / "Dockerfile").read_text()
    [workers] = cluster["workerGroupSpecs"]
    assert f"--workers {workers['replicas']}" in job["spec"]["entrypoint"]
    images = {each["containers"][0]["image"] for each in (head, workers["template"]["spec"])}
    assert len(images) == 1


@pytest.mark.parametrize("name", ["headwise.sbatch", "headwise-rayjob.yaml", "Dockerfile"])
def test_the_page_links_to_each_file(name: str) -> None:
    assert f"(files/{name})" in (FILES.parent / "cluster.md").read_text()
