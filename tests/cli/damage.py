"""The files of one test of wrong uses, and damage to them."""

import contextlib
import json
import re
import shutil
import sqlite3
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from headwise import HeadMask, find_heads
from headwise.models import load_model
from headwise.pruning import export

TOKENIZER, TREEBANK = "model/tokenizer.json", "data/ud/en_toy-ud-dev.conllu"


class World(NamedTuple):
    """The files of one test: copies, which a mistake may damage.

    Attributes:
        model: A tiny tagger.
        data: Tiny treebanks.
        run: A scoring run.
        mask: A mask file.
        here: A folder for the output.
    """

    model: Path
    data: Path
    run: Path
    mask: Path
    here: Path

    @property
    def scoring(self) -> tuple[object, ...]:
        return ("score", self.model, "--task", "pos", "--data", self.data, "--languages", "en", "--budget", 300)

    @property
    def evaluating(self) -> tuple[object, ...]:
        return ("eval", self.model, "--task", "pos", "--data", self.data, "--languages", "en")

    @property
    def pruning(self) -> tuple[object, ...]:
        return ("prune", self.run, "--language", "en", "--count", 2, "--out", self.here / "out")

    @property
    def tuning(self) -> tuple[object, ...]:
        return ("tune", self.model, "--task", "pos", "--data", self.data, "--out", self.here / "out", "--epochs", 1)

    def plan(self, **fields: Any) -> tuple[object, ...]:
        """The command of a study whose plan has other fields."""
        plan = {"study": "targeted", "model": str(self.model), "task": "pos", "data": str(self.data), **fields}
        (self.here / "plan.yaml").write_text("\n".join(f"{key}: {json.dumps(each)}" for key, each in plan.items()))
        return ("study", self.here / "plan.yaml", "--out", self.here / "out")

    def yaml(self, text: str) -> tuple[object, ...]:
        """The command of a study with this plan."""
        (self.here / "plan.yaml").write_text(text)
        return ("study", self.here / "plan.yaml", "--out", self.here / "out")

    def edit(self, path: str, **fields: Any) -> None:
        """Change fields of a JSON file; a field that becomes None is deleted."""
        file = self.here / path
        data = json.loads(file.read_text()) | fields
        file.write_text(json.dumps({key: each for key, each in data.items() if each is not None}))

    def provenance(self, **fields: Any) -> None:
        """Change the provenance of the English scores."""
        file = self.run / "scores" / "en.json"
        self.edit("run/scores/en.json", provenance=json.loads(file.read_text())["provenance"] | fields)

    def row(self, **fields: Any) -> None:
        """Change the first row of the English scores."""
        first, *others = json.loads((self.run / "scores" / "en.json").read_text())["rows"]
        self.edit("run/scores/en.json", rows=[first | fields, *others])

    def write(self, path: str, content: str | bytes) -> Path:
        """Write a file."""
        file = self.here / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file


def cut_all_heads(world: World, **fields: Any) -> None:
    """Write a pruned model without heads, with changes of its manifest."""
    model = load_model(world.model)
    heads = find_heads(model)
    export(model, HeadMask.without(heads, heads.players()), None, world.here / "none")
    for file in world.model.glob("tokenizer*"):
        shutil.copy(file, world.here / "none")
    world.edit("none/headwise.json", **fields)


def write_massive(world: World, **fields: Any) -> None:
    row = {"id": "0", "locale": "sw-KE", "partition": "dev", "intent": "a", "utt": "x", "annot_utt": "x"} | fields
    world.write("data/massive/sw-KE.jsonl", json.dumps(row) + "\n")


def make_loop(world: World) -> None:
    (world.here / "loop").symlink_to(world.here / "loop")


def extend_vocabulary(world: World) -> None:
    """Give a word a number that the model does not have."""
    data = json.loads((world.here / TOKENIZER).read_text())
    data["model"]["vocab"]["cat"] = 70
    world.write(TOKENIZER, json.dumps(data))


def tamper_text(world: World) -> None:
    """Replace the arrays of a round by text with the right checksum, in a run that is that of the copied files."""
    text = (world.run / "config.yaml").read_text()
    text = re.sub(r"(?m)^model: .*$", f"model: {world.model}", text)
    world.write("run/config.yaml", re.sub(r"(?m)^data: .*$", f"data: {world.data}", text))
    with contextlib.closing(sqlite3.connect(world.run / "journal.sqlite")) as journal, journal:
        journal.execute("UPDATE rounds SET arrays = 'x', checksum = ? WHERE number = 0", (zlib.crc32(b"x"),))


def budget_in_words(world: World) -> None:
    text = (world.run / "config.yaml").read_text()
    world.write("run/config.yaml", re.sub(r"(?m)^budget: .*$", "budget: many", text))


def number_in_base_60(world: World) -> None:
    world.write("run/config.yaml", "model: 1" + ":1" * 100_000)
