"""Readers of headwise's own files and of models: whatever a file contains, there is a result or one sentence."""

import contextlib
import json
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save

from headwise import HeadMask, HeadScores, LanguageMasks, find_heads, load_pruned, save_pruned, shrink
from headwise.means import MeanOutputs
from headwise.methods import Budget
from headwise.methods.base import run_method
from headwise.models import load_model, load_tokenizer
from headwise.models.adapted import find_adapter
from headwise.roles.table import HeadRoles
from headwise.runs import open_run, read_run
from headwise.runs.config import read_config
from headwise.scores.tables import load_table
from headwise.scoring import ScoringPlan, make_problems, plan_of, run_scoring
from headwise.scoring.run_folder import list_runs
from headwise.soft_masks import SoftMask, load_mask
from headwise.studies import find_plan
from headwise.studies.page import report_of
from headwise.support.typed import read_assignment
from headwise.tuning.state import read_state
from tests.families import BY_NAME
from tests.fuzz.mutation import TOKENS, VALUES, changed_bytes, changed_data, changed_json
from tests.fuzz.running import fuzz
from tests.scoring.world import Dawdler, save_data, save_model

yaml: Any = import_module("yaml")  # untyped

pytestmark = pytest.mark.slow


def changed_yaml(valid: bytes) -> st.SearchStrategy[bytes]:
    """A YAML file with other data, or with other bytes."""
    data = changed_data(yaml.safe_load(valid)).map(lambda found: yaml.safe_dump(found).encode())
    return st.one_of(data, data, changed_bytes(valid))


def changed_safetensors(valid: bytes) -> st.SearchStrategy[bytes]:
    """A safetensors file with another header of the right length, or with other bytes."""
    size = int.from_bytes(valid[:8], "little")

    def joined(header: bytes) -> bytes:
        return len(header).to_bytes(8, "little") + header + valid[8 + size :]

    return st.one_of(changed_json(valid[8 : 8 + size]).map(joined), changed_bytes(valid))


class Reader(NamedTuple):
    """A reader of a file.

    Attributes:
        file: The file, in the folder that `original` makes.
        read: The reader; it gets the folder.
        change: Makes wrong files of a valid one.
    """

    file: str
    read: Callable[[Path], Any]
    change: Callable[[bytes], st.SearchStrategy[bytes]]


def shown(found: Any) -> Any:
    """What a user sees of an object."""
    return repr(found), found._repr_html_()


def load_scores(folder: Path) -> None:
    scores = HeadScores.load(folder / "run/scores/en.json")
    shown(scores)
    scores.compare(scores)
    scores.mask("harmful")
    scores.mask(count=1)


def load_soft(folder: Path) -> None:
    shown(load_mask(folder / "soft.json"))


def load_languages(folder: Path) -> None:
    LanguageMasks.load(folder / "languages.json", MODEL)


def resume(folder: Path) -> None:
    with open_run(folder / "run", CONFIG) as run:
        assert run.journal.count("en") >= 0


def load_roles(folder: Path) -> None:
    found = HeadRoles.load(folder / "roles.json")
    repr(found)
    list(found.rows())


def load_journal(folder: Path) -> None:
    for end in ("-wal", "-shm"):
        (folder / f"run/journal.sqlite{end}").unlink(missing_ok=True)
    with read_run(folder / "run") as run:
        for stream in run.journal.streams():
            list(run.journal.rounds(stream))


MODEL: Any = BY_NAME["bert"].build()
CONFIG: dict[str, Any] = {}


def adapter(folder: Path) -> Any:
    return find_adapter(folder / "adapter")


def pruned(folder: Path) -> Any:
    return load_pruned(folder / "pruned")


def report(folder: Path) -> Any:
    return report_of(folder / "run")


def tokenizer(folder: Path) -> Any:
    return load_tokenizer(folder / "model")


READERS = {
    "mask": Reader("mask.json", lambda folder: shown(HeadMask.load(folder / "mask.json")), changed_json),
    "soft mask": Reader("soft.json", load_soft, changed_json),
    "masks of languages": Reader("languages.json", load_languages, changed_json),
    "scores": Reader("run/scores/en.json", load_scores, changed_json),
    "report of scores": Reader("run/scores/en.json", report, changed_json),
    "report of a config": Reader("run/config.yaml", report, changed_yaml),
    "table of scores": Reader(
        "run/scores.parquet", lambda folder: load_table(folder / "run/scores.parquet"), changed_bytes
    ),
    "config of a run": Reader("run/config.yaml", lambda folder: plan_of(folder / "run"), changed_yaml),
    "resumed run": Reader("run/config.yaml", resume, changed_yaml),
    "list of runs": Reader("run/config.yaml", list_runs, changed_yaml),
    "journal": Reader("run/journal.sqlite", load_journal, changed_bytes),
    "plan": Reader("plan.yaml", lambda folder: find_plan(str(folder / "plan.yaml")), changed_yaml),
    "means": Reader(
        "means.safetensors", lambda folder: MeanOutputs.load(folder / "means.safetensors"), changed_safetensors
    ),
    "roles": Reader("roles.json", load_roles, changed_json),
    "state of tuning": Reader(
        "state/state.json", lambda folder: read_state(folder / "state", {"model": "x"}), changed_json
    ),
    "manifest": Reader("pruned/headwise.json", pruned, changed_json),
    "config of a pruned model": Reader("pruned/config.json", pruned, changed_json),
    "pruned weights": Reader(
        "pruned/pruned.safetensors", lambda folder: load_pruned(folder / "pruned", verify=False), changed_safetensors
    ),
    "generation config": Reader(
        "writer/generation_config.json", lambda folder: load_pruned(folder / "writer"), changed_json
    ),
    "config of a model": Reader("model/config.json", lambda folder: load_model(folder / "model"), changed_json),
    "tokenizer": Reader("model/tokenizer.json", tokenizer, changed_json),
    "config of a tokenizer": Reader("model/tokenizer_config.json", tokenizer, changed_json),
    "config of an adapter": Reader("adapter/adapter_config.json", adapter, changed_json),
    "labels beside an adapter": Reader("adapter/config.json", adapter, changed_json),
    "weights of an adapter": Reader("adapter/adapter_model.safetensors", adapter, changed_safetensors),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Valid files of every kind."""
    folder = tmp_path_factory.mktemp("files")
    heads = find_heads(MODEL)
    HeadMask.without(heads, ["encoder.0.1"], language="en").save(folder / "mask.json")
    SoftMask(heads.players(), tuple(0.5 for _ in heads.players()), model=heads.model).save(folder / "soft.json")
    LanguageMasks(MODEL, {"en": HeadMask.full(heads, language="en")}).save(folder / "languages.json")
    plan = plan_in(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwise.scoring.run.find_method", lambda name, **options: Dawdler(**options))
        run_scoring(plan, folder / "run")
    CONFIG.update({**read_config(folder / "run"), "method": "permutation", "options": {}})
    (folder / "run/config.yaml").write_text(yaml.safe_dump(CONFIG))
    plan_text = {"study": "targeted", "model": "m", "task": "pos", "data": "d", "budget": 10, "languages": ["en"]}
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan_text))
    problems, _ = make_problems(plan_in(folder, baseline="mean"))
    assert problems["en"].baseline is not None
    problems["en"].baseline.save(folder / "means.safetensors")
    cells = {"examples": 3, "cut": 0, "units": 3.0, "columns": [["previous", True, 0.1]]}
    table = {"value": [[0.5]], "stderr": [[0.1]], "count": [[4]]}
    roles = {"format": "headwise-roles", "version": 1, "about": {"model": "tiny"}, "heads": ["encoder.0.0"]}
    (folder / "roles.json").write_text(json.dumps({**roles, "languages": {"en": {**cells, **table}}}))
    (folder / "state").mkdir()
    (folder / "state/state.json").write_text(json.dumps({"run": {"model": "x"}, "epoch": 1}))
    (folder / "state/state.safetensors").write_bytes(save({"a": np.ones(2)}))
    save_pruned(shrink(MODEL, HeadMask.without(heads, ["encoder.0.1"])), folder / "pruned")
    writer = BY_NAME["gpt2"].build()
    save_pruned(shrink(writer, HeadMask.full(find_heads(writer))), folder / "writer")
    (folder / "adapter").mkdir()
    base = {"peft_type": "LORA", "base_model_name_or_path": "m", "r": 8, "target_modules": ["query"]}
    (folder / "adapter/adapter_config.json").write_text(json.dumps(base))
    (folder / "adapter/config.json").write_text(json.dumps({"id2label": {"0": "a", "1": "b"}}))
    (folder / "adapter/adapter_model.safetensors").write_bytes(save({"base_model.model.a": np.ones((2, 2))}))
    return folder


def plan_in(folder: Path, **fields: Any) -> ScoringPlan:
    """A plan on a tiny tagger, whose files are written if they are not there."""
    if not (folder / "model").exists():
        save_model(folder / "model")
        save_data(folder / "data")
    return ScoringPlan(str(folder / "model"), "pos", str(folder / "data"), "en", method="dawdler", budget=40, **fields)


@pytest.mark.parametrize("name", READERS)
def test_any_file_is_read_or_refused(
    name: str, original: Path, tmp_path: Path, fuzz_seconds: float, fuzz_seed: int
) -> None:
    folder, each = tmp_path / "files", READERS[name]
    shutil.copytree(original, folder)
    each.read(folder)  # without mistakes there is no error, or nothing would be tested
    path = folder / each.file
    valid = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        each.read(folder)

    assert fuzz(read, each.change(valid), fuzz_seconds, fuzz_seed) > 0


def test_any_assignment_is_read_or_refused(fuzz_seconds: float, fuzz_seed: int) -> None:
    texts = [each.decode("utf-8", "ignore") for each in TOKENS]
    change = st.lists(st.one_of(st.sampled_from(texts), st.text(max_size=5)), max_size=4).map("".join)
    assert fuzz(lambda text: read_assignment(f"budget={text}"), change, fuzz_seconds, fuzz_seed) > 0


def test_any_round_is_replayed_or_refused(original: Path, tmp_path: Path, fuzz_seconds: float, fuzz_seed: int) -> None:
    problem = make_problems(plan_in(original))[0]["en"]
    folder = tmp_path / "run"
    with open_run(folder, {"seed": 0}) as run:
        run_method(Dawdler(), problem, Budget(20), 0, run.journal, "en")
        recorded = dict(next(run.journal.rounds("en")).arrays)
    shapes = arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=13)
    array = arrays.arrays(st.sampled_from([np.float64, np.int8, np.bool_, np.float16]), shapes)
    wrong = st.dictionaries(st.sampled_from([*recorded, "x"]), array, min_size=1)
    blob = wrong.map(lambda found: save({**recorded, **found}))
    less = st.sampled_from(list(recorded))
    fewer = less.map(lambda name: save({key: array for key, array in recorded.items() if key != name}))
    simple = [each for each in VALUES if isinstance(each, str | float | None) or each in (0, 1, -1, 2)]
    change = st.tuples(st.just("arrays"), st.one_of(blob, fewer, st.binary(max_size=60), changed_bytes(save(recorded))))
    other = st.tuples(
        st.sampled_from(["seed", "stream", "number", "first_draw", "draws", "arrays"]), st.sampled_from(simple)
    )

    def read(found: tuple[str, Any]) -> None:
        column, value = found
        with contextlib.closing(sqlite3.connect(folder / "journal.sqlite", isolation_level=None)) as journal:
            journal.execute("BEGIN")
            try:
                journal.execute(f"UPDATE rounds SET {column} = ? WHERE number = 1", (value,))
            except (sqlite3.Error, UnicodeEncodeError):
                return
            if isinstance(value, bytes):
                journal.execute("UPDATE rounds SET checksum = ? WHERE number = 1", (zlib.crc32(value),))
            journal.execute("COMMIT")
        try:
            with open_run(folder, {"seed": 0}) as run:
                scores = run_method(Dawdler(), problem, Budget(0), 0, run.journal, "en").scores
                assert len(scores.players) == 12
        finally:
            shutil.copy(tmp_path / "valid.sqlite", folder / "journal.sqlite")

    shutil.copy(folder / "journal.sqlite", tmp_path / "valid.sqlite")
    assert fuzz(read, st.one_of(change, change, other), fuzz_seconds, fuzz_seed) > 0
