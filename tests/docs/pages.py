"""The documentation as code: blocks of pages, cells of the tutorial, and small stand-ins for the default models."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForTokenClassification, BertModel

from headwise.data.examples import UPOS

ROOT = Path(__file__).parents[2]
#: A comment before a block that is not run; it says why.
_ONLY_COMPILED = "<!-- only compiled:"
_BLOCK = re.compile(r"(?P<before>[^\n]*)\n```python\n(?P<code>.*?)\n```", re.DOTALL)
#: What makes the work of examples small: they show what a user would choose.
_SMALL = {r"budget=[\d_]+": "budget=120", r"rounds=\d+": "rounds=1, examples=16"}


@dataclass(frozen=True)
class Block:
    """Python code of a page.

    Attributes:
        place: The page and the line, for messages.
        code: The code.
        runs: Whether it can be run here.
    """

    place: str
    code: str
    runs: bool


def python_blocks(path: Path) -> list[Block]:
    """The fenced Python blocks of a page, in order."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(
            f"{path.relative_to(ROOT)}, line {text[: found.start('code')].count(chr(10)) + 1}",
            found["code"],
            not found["before"].startswith(_ONLY_COMPILED),
        )
        for found in _BLOCK.finditer(text)
    ]


def tutorial_cells() -> list[Block]:
    """The code cells of the tutorial."""
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    return [
        Block(f"docs/tutorial.ipynb, cell {number}", "".join(cell["source"]), runs=True)
        for number, cell in enumerate(cells, 1)
        if cell["cell_type"] == "code"
    ]


def run_blocks(blocks: list[Block], small: bool = True) -> Mapping[str, Any]:
    """Run blocks one after the other, as in one session, and compile those that cannot be run.

    Args:
        blocks: The blocks.
        small: Replace budgets and rounds by small ones.

    Returns:
        The names that were defined.
    """
    names: dict[str, Any] = {"__name__": "documentation"}
    for block in blocks:
        code = block.code
        for pattern, small_value in _SMALL.items() if small else ():
            code = re.sub(pattern, small_value, code)
        compiled = compile(code, block.place, "exec")
        if block.runs:
            exec(compiled, names)
    return names


def load_tiny_default(name: str, **_options: Any) -> Any:
    """A model with the heads and the vocabulary of e5-small, but narrow, in place of a default model."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=250_037,
        hidden_size=24,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=24,
        id2label=dict(enumerate(UPOS)),
        label2id={label: number for number, label in enumerate(UPOS)},
    )
    if name == "e5-small":  # without the name, by which tuning would build a model of the usual size
        return BertModel(config, add_pooling_layer=False).eval()
    model = BertForTokenClassification(config)
    model.config.name_or_path = name
    return model.eval()
