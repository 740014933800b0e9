"""Silences other libraries: their progress bars, log lines and warnings do not appear in the output."""

import os
import warnings

#: Environment variables that the libraries read when they are imported; those that the user has set are kept.
_VARIABLES = {
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "HF_HUB_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # transformers reads it too
    "DATASETS_VERBOSITY": "error",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",  # otherwise tokenizers warns whenever the process forks
}
_LIBRARIES = ("torch", "transformers", "datasets", "huggingface_hub", "peft", "tokenizers", "seqeval", "sacrebleu")


def quiet_libraries() -> None:
    """Silence the libraries that commands use; must be called before they are imported."""
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)
    if not os.environ.get("PYTHONWARNINGS"):
        warnings.filterwarnings("ignore", module=rf"({'|'.join(_LIBRARIES)})(\.|$)")
