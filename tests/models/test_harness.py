"""lm-evaluation-harness and headwise measure the same: on its tasks as data, and on models under masks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from headwise import HeadMask, HeadwiseError, find_heads, fold, gated, shrink
from headwise.data.catalog import open_and_guess, open_dataset
from headwise.engine.evaluation import measure
from headwise.errors import MaskMismatchError
from headwise.models import load_model, load_tokenizer
from headwise.models.harness import harness_model
from headwise.soft_masks import SoftMask
from headwise.tasks.dispatch import task_of
from tests.cli.running import run
from tests.families import BY_NAME, no_trace_left, uneven_mask

lm_eval = pytest.importorskip("lm_eval")
pytest.importorskip("lm_eval.tasks")  # `import lm_eval` does not import it

CHOICES = """
task: tiny_choice_sw
dataset_path: json
dataset_kwargs: {data_files: {validation: DATA, test: DATA}}
output_type: multiple_choice
validation_split: validation
test_split: test
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
doc_to_choice: "{{choices}}"
num_fewshot: 2
fewshot_split: validation
metric_list: [{metric: acc}, {metric: acc_norm}, {metric: acc_bytes}]
"""
CONTINUATIONS = """
task: tiny_continuation_sw
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
output_type: loglikelihood
test_split: test
doc_to_text: "{{question}}"
doc_to_target: " {{text}}"
metric_list: [{metric: perplexity}, {metric: acc}]
"""
ROLLING = """
task: tiny_lm_sw
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
output_type: loglikelihood_rolling
test_split: test
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: bits_per_byte}]
"""
PAIRS = """
task: tiny_pairs_sw
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
output_type: multiple_choice
test_split: test
doc_to_text: ""
doc_to_target: 0
doc_to_choice: "{{[text, wrong]}}"
target_delimiter: ""
metric_list: [{metric: acc}]
"""
TASKS = {"choice": CHOICES, "continuation": CONTINUATIONS, "lm": ROLLING, "pairs": PAIRS}


def rows() -> list[dict[str, Any]]:
    draw = np.random.default_rng(0)

    def some(low: int, high: int) -> str:
        return " ".join(f"w{n}" for n in draw.integers(4, 50, draw.integers(low, high)))

    return [
        {
            "question": some(2, 6),
            "choices": [some(1, 4) for _ in range(3)],
            "answer": int(draw.integers(3)),
            "text": some(2, 9),
            "wrong": some(2, 9),
        }
        for _ in range(24)
    ]


@pytest.fixture(scope="module", params=["no start token", "start token"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama, whose tokenizer adds a start token (as Llama's) or not (as Qwen's)."""
    return save_model(tmp_path_factory.mktemp("model"), "llama", request.param == "start token")


def save_model(folder: Path, family: str, start_token: bool) -> Path:
    """A tiny model and its tokenizer in a folder."""
    names = ["<s>", "<pad>", "</s>", "<unk>", *(f"w{n}" for n in range(4, 50))]
    base = Tokenizer(WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if start_token:
        base.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=base, **special).save_pretrained(folder)
    BY_NAME[family].build().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    for name, text in TASKS.items():
        (folder / f"{name}_sw.yaml").write_text(text.replace("DATA", str(data)))
    return {name: folder / f"{name}_sw.yaml" for name in TASKS}


@pytest.fixture(autouse=True)
def _no_description_of_this_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness starts a dozen programs per evaluation to describe the computer in its results."""
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)


def by_harness(model: Any, task: Path, **arguments: Any) -> dict[str, float]:
    """The metrics of lm-evaluation-harness, by its own evaluator."""
    manager = lm_eval.tasks.TaskManager(include_defaults=False)
    found = lm_eval.simple_evaluate(
        model=model, tasks=[str(task)], task_manager=manager, bootstrap_iters=0, **arguments
    )
    (result,) = found["results"].values()
    return {name.partition(",")[0]: value for name, value in result.items() if isinstance(value, float)}


def masks_of(model: Any) -> dict[str, Any]:
    heads = find_heads(model)
    draw = np.random.default_rng(1)
    return {
        "full": HeadMask.full(heads),
        "hard": uneven_mask(heads),
        "soft": SoftMask.of(heads, draw.uniform(0, 1.5, len(heads.players("heads"))).tolist()),
    }


@pytest.mark.parametrize(
    ("name", "task", "metric", "own"),
    [
        ("choice", "choice", "acc", "accuracy"),
        ("choice", "choice-per-character", "acc_norm", "accuracy"),
        ("choice", "choice-per-byte", "acc_bytes", "accuracy"),
        ("continuation", "continuation", "acc", "accuracy"),
        ("lm", "lm", "bits_per_byte", "bits per byte"),
        ("pairs", "choice", "acc", "accuracy"),
    ],
)
def test_its_tasks_as_data_give_its_numbers_with_and_without_a_mask(
    name: str, task: str, metric: str, own: str, checkpoint: Path, tasks: dict[str, Path]
) -> None:
    model, tokenizer = load_model(checkpoint), load_tokenizer(checkpoint)
    if name == "lm" and tokenizer("w5")["input_ids"][0] == tokenizer.bos_token_id:
        pytest.skip("for rolling likelihoods the harness adds a second start token, and predicts it")
    data = open_dataset(f"lm-eval:{tasks[name]}", task)
    examples = data.examples("sw", "test" if name == "choice" else "all")
    assert (data.languages, len(examples)) == (("sw",), 24)
    for mask in (None, uneven_mask(find_heads(model))):
        expected = by_harness(harness_model(model, tokenizer, mask), tasks[name])[metric]
        with gated(model, HeadMask.full(find_heads(model)) if mask is None else mask):
            results = {each.metric: each for each in measure(model, task_of(model, task), examples, tokenizer).results}
        scale = 100 if own == "accuracy" else 1
        assert results[own].value == pytest.approx(scale * expected, rel=1e-5)


def test_likelihoods_of_continuations_are_its_likelihoods(checkpoint: Path, tasks: dict[str, Path]) -> None:
    model, tokenizer = load_model(checkpoint), load_tokenizer(checkpoint)
    examples = open_dataset(f"lm-eval:{tasks['continuation']}", "continuation").examples("sw", "all")
    found = measure(model, task_of(model, "continuation"), examples, tokenizer).results[0].statistics[:, 0]
    expected = by_harness(harness_model(model, tokenizer), tasks["continuation"])["perplexity"]
    assert np.exp(-found.mean()) == pytest.approx(expected, rel=1e-5)  # its perplexity is per continuation


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "hard", "soft"])
def test_a_masked_model_has_the_numbers_of_its_folded_checkpoint(
    kind: str, checkpoint: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    model, tokenizer = load_model(checkpoint), load_tokenizer(checkpoint)
    mask = masks_of(model)[kind]
    fold(model, mask).save_pretrained(tmp_path / "folded")
    tokenizer.save_pretrained(tmp_path / "folded")
    for task in tasks.values():
        expected = by_harness(
            "hf", task, model_args={"pretrained": str(tmp_path / "folded"), "dtype": "float32"}, device="cpu"
        )
        with no_trace_left(model):
            assert by_harness(harness_model(model, tokenizer, mask), task) == pytest.approx(expected, rel=1e-5)
        if kind == "hard":
            assert by_harness(harness_model(shrink(model, mask), tokenizer), task) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "bloom", "gemma3", "qwen3"])
def test_the_harness_reads_the_folded_checkpoints_of_prune(
    family: str, tasks: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_model(tmp_path / "model", family, start_token=False)
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    masks, folders = {"none": None, **masks_of(model)}, {"none": folder}
    for kind in ("hard", "soft"):
        masks[kind].save(tmp_path / f"{kind}.json")
        folders[kind] = tmp_path / kind
        prune = ("prune", folder, "--mask", tmp_path / f"{kind}.json", "--export", "folded", "--out", folders[kind])
        assert run(monkeypatch, *prune) == 0
    for name, task in tasks.items():
        found = {}
        for kind, path in folders.items():
            arguments = {"pretrained": str(path), "dtype": "float32"}
            found[kind] = by_harness("hf", task, model_args=arguments, device="cpu")
            own = by_harness(harness_model(model, tokenizer, masks[kind]), task)
            assert own == pytest.approx(found[kind], rel=1e-5)
        if name in ("lm", "continuation"):  # accuracies of few examples may be equal
            assert found["hard"] != pytest.approx(found["none"], rel=1e-3)
            assert found["soft"] != pytest.approx(found["none"], rel=1e-3)


@pytest.mark.slow
def test_the_command_line_of_the_harness_and_eval_show_the_same_numbers(
    tasks: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_model(tmp_path / "model", "llama", start_token=False)
    model = load_model(folder)
    mask = masks_of(model)["soft"]
    mask.save(tmp_path / "mask.json")
    prune = ("prune", folder, "--mask", tmp_path / "mask.json", "--out", tmp_path / "folded")
    assert run(monkeypatch, *prune) == 0
    names = [f"tiny_{name}_sw" for name in TASKS]
    command = [
        *(sys.executable, "-m", "lm_eval", "--model", "hf", "--device", "cpu", "--tasks", ",".join(names)),
        *("--model_args", f"pretrained={tmp_path / 'folded'},dtype=float32"),
        *("--include_path", str(tasks["lm"].parent), "--output_path", str(tmp_path / "results.json")),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    [written] = tmp_path.rglob("results*.json")
    found = json.loads(written.read_text())["results"]
    own = {name: by_harness(harness_model(model, load_tokenizer(folder), mask), tasks[name]) for name in TASKS}
    for name in TASKS:
        shown = {key.partition(",")[0]: value for key, value in found[f"tiny_{name}_sw"].items()}
        assert {key: shown[key] for key in own[name]} == pytest.approx(own[name], rel=1e-5)
    capsys.readouterr()
    for name, task, metric, figure in (
        ("choice", "choice", "acc", "accuracy"),
        ("choice", "choice-per-byte", "acc_bytes", "accuracy"),
        ("lm", "lm", "bits_per_byte", "bits per byte"),
        ("pairs", "choice", "acc", "accuracy"),
    ):
        split = "test" if name == "choice" else "all"
        evaluation = ("eval", tmp_path / "folded", "--task", task, "--data", f"lm-eval:{tasks[name]}", "--json")
        assert run(monkeypatch, *evaluation, "--split", split) == 0
        value = json.loads(capsys.readouterr().out)["languages"]["sw"]["metrics"][figure]["value"]
        expected = found[f"tiny_{name}_sw"][f"{metric},none"]
        assert value == pytest.approx((100 if figure == "accuracy" else 1) * expected, rel=1e-5)


def test_a_mask_of_another_model_is_an_error(checkpoint: Path) -> None:
    other = find_heads(BY_NAME["gpt2"].build())
    with pytest.raises(MaskMismatchError):
        harness_model(load_model(checkpoint), load_tokenizer(checkpoint), HeadMask.full(other))


def test_heads_are_scored_on_a_task_of_the_harness(
    checkpoint: Path, tasks: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = ("--method", "permutation", "--budget", 300, "--out", tmp_path / "run")
    data = f"lm-eval:{tasks['pairs'].with_name('pairs_{language}.yaml')}"
    assert run(monkeypatch, "score", checkpoint, "--task", "choice", "--data", data, *options) == 0
    assert (tmp_path / "run" / "scores" / "sw.parquet").exists() or list((tmp_path / "run" / "scores").iterdir())


def test_the_kind_of_a_task_says_the_task_of_headwise(tasks: dict[str, Path]) -> None:
    assert [open_and_guess(f"lm-eval:{path}")[1] for path in tasks.values()] == [
        "choice",
        "continuation",
        "lm",
        "choice",
    ]


def test_half_of_a_task_without_validation_is_for_scoring(tasks: dict[str, Path]) -> None:
    data = open_dataset(f"lm-eval:{tasks['pairs']}", "choice")
    sizes = {split: len(data.examples("sw", split)) for split in ("dev", "test", "all")}
    assert sizes == {"dev": 12, "test": 12, "all": 24}
    assert "random halves" in data.note


def test_mistakes_are_named(tasks: dict[str, Path], tmp_path: Path) -> None:
    writing = tmp_path / "writing_sw.yaml"
    writing.write_text(tasks["lm"].read_text().replace("loglikelihood_rolling", "generate_until"))
    wrong = tmp_path / "wrong_sw.yaml"
    bad = tmp_path / "bad.jsonl"
    bad.write_text("".join(json.dumps({**row, "answer": 7 if n == 3 else 0}) + "\n" for n, row in enumerate(rows(), 1)))
    good = tasks["choice"].with_name("data.jsonl")
    wrong.write_text(tasks["choice"].read_text().replace(str(good), str(bad)).replace("num_fewshot: 2", ""))
    for name, task, message in (
        (f"lm-eval:{tasks['pairs']}", "lm", "is of the kind multiple_choice: use the task choice or"),
        (f"lm-eval:{writing}", "lm", "is of the kind generate_until, which has no log-likelihood"),
        (f"lm-eval:{wrong}", "choice", "dev document 3: the answer is 7, not one of its 3 choices"),
        ("lm-eval:no/such.yaml", "lm", "no/such.yaml: no such file"),
        ("lm-eval:{language}/such.yaml", "lm", "no file matches this pattern"),
    ):
        with pytest.raises(HeadwiseError, match=message):
            open_dataset(name, task)
