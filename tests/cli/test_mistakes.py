"""Wrong uses of the command line: one sentence, the right exit code, nothing written, no traceback."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadMask, find_heads
from headwise.models import load_model
from tests.cli.damage import (
    TOKENIZER,
    TREEBANK,
    World,
    budget_in_words,
    cut_all_heads,
    extend_vocabulary,
    make_loop,
    number_in_base_60,
    tamper_text,
    write_massive,
)
from tests.cli.running import run
from tests.scoring.world import save_data, save_model


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    model, data = save_model(folder / "model"), save_data(folder / "data")
    HeadMask.without(find_heads(load_model(model)), ["encoder.0.1"]).save(folder / "mask.json")
    with pytest.MonkeyPatch.context() as patch:
        command = ("score", model, "--task", "pos", "--data", data, "--languages", "en,sw", "--budget", 300)
        assert run(patch, *command, "--method", "permutation", "--out", folder / "run") == 0
    return folder


@pytest.fixture
def world(original: Path, tmp_path: Path) -> World:
    here = tmp_path / "w"
    shutil.copytree(original, here)
    return World(here / "model", here / "data", here / "run", here / "mask.json", here)


def after(change: Callable[[World], Any], command: Callable[[World], tuple[object, ...]]) -> Any:
    """A command after a change of the world."""

    def build(world: World) -> tuple[object, ...]:
        change(world)
        return command(world)

    return build


def configured(**fields: Any) -> Any:
    """Scoring after a change of the config of the model."""
    return after(lambda w: w.edit("model/config.json", **fields), SCORE)


Command = Callable[[World], tuple[object, ...]]
SCORE: Command = lambda w: (*w.scoring, "--out", w.here / "out")  # noqa: E731 - short, as in the tables below
EVAL: Command = lambda w: w.evaluating  # noqa: E731
TUNE: Command = lambda w: w.tuning  # noqa: E731
PRUNE: Command = lambda w: w.pruning  # noqa: E731
#: Deep enough for the recursion limit of Python.
DEEP = "[" * 5000
#: What is typed, and what must be said about it. Exit code 2: the command line itself is wrong.
USAGE: dict[str, tuple[Command, str]] = {
    "no such command": (lambda w: ("scroe", w.model), "No such command 'scroe'"),
    "no model": (lambda w: ("score",), "Missing argument"),
    "no task": (lambda w: ("score", w.model, "--data", w.data), "--task"),
    "no data": (lambda w: ("eval", w.model, "--task", "pos"), "--data"),
    "no such option": (lambda w: (*SCORE(w), "--buget", 3), "--buget"),
    "budget in words": (lambda w: (*SCORE(w), "--budget", "many"), "'--budget': Input should be a valid number"),
    "budget not a number": (lambda w: (*SCORE(w), "--budget", "nan"), "--budget"),
    "budget negative": (lambda w: (*SCORE(w), "--budget", -5), "--budget"),
    "limit 0": (lambda w: (*SCORE(w), "--limit", 0), "--limit"),
    "seed in words": (lambda w: (*SCORE(w), "--seed", "one"), "'--seed': Input should be a valid integer"),
    "share above 1": (
        lambda w: (*PRUNE(w)[:4], "--share", 1.5, "--out", w.here / "out"),
        "'--share': Input should be less",
    ),
    "negative count": (
        lambda w: (*PRUNE(w)[:4], "--count", -1, "--out", w.here / "out"),
        "'--count': Input should be greater",
    ),
    "no such export": (lambda w: (*PRUNE(w), "--export", "zip"), "zip"),
    "no output folder": (lambda w: ("prune", w.run, "--language", "en"), "--out"),
    "no such list": (lambda w: ("ls", "planets"), "planets"),
    "epochs 0": (lambda w: (*TUNE(w), "--epochs", 0), "epochs"),
    "rounds 0": (lambda w: ("refine", w.run, "--rounds", 0), "--rounds"),
    "workers 0": (lambda w: (*SCORE(w), "--workers", 0), "workers"),
}
OPTIONS: dict[str, tuple[Command, str]] = {
    "model with a line break in its name": (lambda w: ("score", "a\nb", *w.scoring[2:]), "headwise: a b: not a model"),
    "no such model": (lambda w: ("score", "./no", *w.scoring[2:]), "./no: no such folder"),
    "no such task": (lambda w: ("eval", w.model, "--task", "cooking", "--data", w.data), "cooking"),
    "no such data": (lambda w: ("eval", w.model, "--task", "pos", "--data", w.here / "no"), "no"),
    "no such language": (lambda w: (*EVAL(w)[:6], "--languages", "en,xx"), "xx"),
    "no language": (lambda w: (*EVAL(w)[:6], "--languages", ","), "--languages"),
    "no such split": (lambda w: (*EVAL(w), "--split", "tset"), "tset"),
    "no such method": (lambda w: (*SCORE(w), "--method", "shaply"), "shaply"),
    "no such game": (lambda w: (*SCORE(w), "--game", "chess"), "chess"),
    "no such players": (lambda w: (*SCORE(w), "--players", "neurons"), "neurons"),
    "no such device": (lambda w: (*SCORE(w), "--device", "toaster"), "toaster"),
    "no such dtype": (lambda w: (*SCORE(w), "--dtype", "int3"), "int3"),
    "no such baseline": (lambda w: (*SCORE(w), "--baseline", "median"), "median"),
    "budget infinite": (lambda w: (*SCORE(w), "--budget", "inf"), "budget"),
    "budget absurd": (lambda w: (*SCORE(w), "--budget", "1e308"), "at most 1,000,000,000 units"),
    "budget below one round": (lambda w: (*SCORE(w), "--budget", 3), "budget"),
    "error rate of 2": (lambda w: (*SCORE(w), "--error-rate", 2), "error"),
    "seed too large": (lambda w: (*SCORE(w), "--seed", 2**70), "seed"),
    "change of an unknown field": (lambda w: (*w.plan(), "--set", "lam=0.1"), "lam"),
    "change that is not YAML": (lambda w: (*w.plan(), "--set", "budget=" + DEEP), "not YAML"),
    "change with a long number": (lambda w: (*w.plan(), "--set", "budget=" + "9" * 9000), "not YAML"),
    "change without a value": (lambda w: (*w.plan(), "--set", "budget"), "FIELD=VALUE"),
    "change to an absurd budget": (lambda w: (*w.plan(), "--set", "budget=1.0e+300"), "at most 1,000,000,000 units"),
    "two rules": (lambda w: (*PRUNE(w), "--harmful", "--likely"), "different ways to choose heads"),
    "a rule and a count": (lambda w: (*PRUNE(w), "--likely"), "--count"),
    "no language to prune for": (lambda w: ("prune", w.run, "--count", 2, "--out", w.here / "o"), "--language"),
    "a language that was not scored": (
        lambda w: ("prune", w.run, "--language", "fi", "--count", 2, "--out", w.here / "o"),
        "fi",
    ),
    "more heads than there are": (lambda w: (*PRUNE(w)[:4], "--count", 99, "--out", w.here / "o"), "99"),
    "refined before refining": (lambda w: (*PRUNE(w)[:4], "--refined", "--out", w.here / "o"), "headwise refine"),
    "soft without gates": (lambda w: (*PRUNE(w)[:4], "--soft", "--out", w.here / "o"), "headwise gates"),
    "no such mask": (lambda w: ("prune", w.model, "--mask", w.here / "no.json", "--out", w.here / "o"), "no such file"),
    "means without a mask": (lambda w: (*PRUNE(w), "--means", w.mask), "--means"),
    "repair of a mask": (lambda w: (*PRUNE(w), "--repair", "--export", "mask"), "--repair"),
    "output in the run": (lambda w: (*PRUNE(w)[:6], "--out", w.run / "scores" / "mine"), "inside the run folder"),
    "output over the scores": (
        lambda w: (*PRUNE(w)[:6], "--out", w.run / "masks", "--overwrite"),
        "inside the run folder",
    ),
    "output over the refined masks": (
        after(
            lambda w: w.write("run/refined/en.json", "{}"),
            lambda w: (*PRUNE(w)[:6], "--out", w.run / "refined", "--overwrite"),
        ),
        "inside the run folder",
    ),
    "run among the scores of another": (
        lambda w: (*w.scoring, "--out", w.run / "scores" / "mine"),
        "results of the run",
    ),
    "report over the config of its run": (lambda w: ("report", w.run, "--out", w.run / "config.yaml"), "not a page"),
    "report over a model": (lambda w: ("report", w.run, "--out", w.model / "model.safetensors"), "not a page"),
    "page over a mask": (
        lambda w: (
            "roles",
            w.model,
            "--data",
            w.data,
            "--languages",
            "en",
            "--out",
            w.here / "out",
            "--markdown",
            w.mask,
        ),
        "not a page",
    ),
    "output over MASSIVE": (
        after(write_massive, lambda w: (*TUNE(w)[:6], "--out", w.data / "massive", "--overwrite")),
        "headwise did not write this folder",
    ),
    "output over the data": (
        lambda w: (*TUNE(w)[:6], "--out", w.data / "ud", "--overwrite"),
        "headwise did not write this folder",
    ),
    "output over the model": (lambda w: (*TUNE(w)[:6], "--out", w.model, "--overwrite"), "contains the model"),
    "no such run": (lambda w: ("report", w.here / "no"), "not a run folder"),
    "a model as a run": (lambda w: ("report", w.model), "not a run folder"),
    "compare with no run": (lambda w: ("compare", w.run, w.here / "no"), "no"),
    "merge of a run and itself": (lambda w: ("merge", w.run, w.run, "--out", w.here / "o"), "seed"),
    "no such study": (lambda w: ("study", "plants", "--out", w.here / "o"), "plants"),
    "study of the scored split": (lambda w: w.plan(test_split="dev"), "test_split"),
    "unknown field": (lambda w: w.plan(bugdet=3), "unknown field 'bugdet'"),
    "field of a wrong type": (lambda w: w.plan(budget="many"), "'budget' must be a number"),
    "too many resamples": (lambda w: w.plan(resamples=10**12), "at most 1,000,000"),
    "resamples without end": (lambda w: (*w.plan(), "--set", "resamples=1e308"), "'resamples' must be a whole number"),
    "no resamples": (lambda w: w.plan(resamples=0), "resamples"),
    "shards in words": (lambda w: (*w.plan(), "--shard", "one"), "shard"),
    "plan with aliases": (lambda w: w.yaml("study: &x [1]\nmodel: [*x, *x]"), "the alias *x is not allowed"),
    "plan that contains itself": (lambda w: w.yaml("study: &x {a: *x}"), "the alias *x is not allowed"),
    "plan that is too deep": (lambda w: w.yaml("study: " + DEEP), "not YAML"),
    "plan with a long number": (lambda w: w.yaml("study: " + "9" * 9000), "not YAML"),
    "plan without a study": (lambda w: w.yaml("model: x"), "study"),
    "plan that is a list": (lambda w: w.yaml("- a"), "has no fields"),
    "empty plan": (lambda w: w.yaml(""), "has no fields"),
}


FILES: dict[str, tuple[Command, str]] = {
    "no config of the model": (after(lambda w: (w.model / "config.json").unlink(), SCORE), "model"),
    "config that is not JSON": (after(lambda w: w.write("model/config.json", "{"), SCORE), "config.json"),
    "config that is too deep": (after(lambda w: w.write("model/config.json", '{"a":' + DEEP), SCORE), "not a model"),
    "config that is a list": (after(lambda w: w.write("model/config.json", "[1]"), SCORE), "config.json"),
    "no such model type": (configured(model_type="brt"), "brt"),
    "no such class": (configured(architectures=["Brt"]), "a model with a classifier"),
    "classes that are no list": (configured(architectures=True), "is not a list of names"),
    "class that is a number": (configured(architectures=[3]), "a model with a classifier"),
    "class without a head": (configured(architectures=["BertModel"]), "a model with a classifier"),
    "negative number of heads": (
        configured(num_attention_heads=-4), "no heads left"),
    "heads that do not divide": (configured(num_attention_heads=5), ""),
    "layers in words": (configured(num_hidden_layers="two"), "num_hidden_layers"),
    "weights of another shape": (configured(hidden_size=64), ""),
    "weights cut short": (
        after(lambda w: w.write("model/model.safetensors", (w.model / "model.safetensors").read_bytes()[:999]), SCORE),
        "cannot be loaded"),
    "no weights": (after(lambda w: (w.model / "model.safetensors").unlink(), SCORE), "model.safetensors"),
    "no tokenizer": (after(lambda w: list(map(Path.unlink, w.model.glob("token*"))), SCORE), "tokenizer"),
    "tokenizer that is a list": (after(lambda w: w.write(TOKENIZER, "[1]"), SCORE), "tokenizer"),
    "tokenizer that is too deep": (after(lambda w: w.write(TOKENIZER, DEEP), SCORE), "tokenizer"),
    "tokenizer settings of a wrong type": (
        after(lambda w: w.write("model/tokenizer_config.json", '{"pad_token": 7}'), SCORE), "token"),
    "vocabulary smaller than the tokenizer's": (
        configured(vocab_size=3), ""),
    "tokenizer with more tokens than the model": (
        after(extend_vocabulary, SCORE), "has a token 70, but the model has 50 tokens"),
    "adapter of a wrong type": (
        after(lambda w: w.write("model/adapter_config.json", '{"base_model_name_or_path": 3}'), SCORE), "adapter"),
    "all heads cut out": (
        after(cut_all_heads, lambda w: ("score", w.here / "none", *w.scoring[2:], "--out", w.here / "out")),
        "no heads left"),
    "roles of a model without heads": (
        after(cut_all_heads, lambda w: ("roles", w.here / "none", "--data", w.data, "--out", w.here / "out")),
        "no heads left"),
    "gzip that unpacks to empty lines": (
        after(lambda w: w.write("data/ud/de_toy-ud-dev.conllu.gz", gzip.compress(b"\n" * 20_000_000)),
              lambda w: (*EVAL(w)[:6], "--languages", "de", "--split", "dev")), "more than 100 times its size"),
    "data set with aliases": (
        after(lambda w: w.write("mine.yaml", "dataset: &x [1]\nlanguages: [*x, *x]"),
              lambda w: (*EVAL(w)[:4], "--data", w.here / "mine.yaml")), "the alias *x is not allowed"),
    "treebank with two columns": (after(lambda w: w.write(TREEBANK, "1\tcat\n"), SCORE), "line 1"),
    "empty treebank": (after(lambda w: w.write(TREEBANK, ""), SCORE), "empty"),
    "treebank in Latin-1": (
        after(lambda w: w.write(TREEBANK, "1\tcaf\xe9".encode("latin-1")), SCORE), "not UTF-8"),
    "gzip that is none": (
        after(lambda w: (w.write("data/ud/de_toy-ud-dev.conllu.gz", "1\tcat")),
              lambda w: (*EVAL(w)[:6], "--languages", "de", "--split", "dev")), "gzip"),
    "gzip that unpacks to a huge line": (
        after(lambda w: (w.write("data/ud/de_toy-ud-dev.conllu.gz", gzip.compress(b"a" * 17_000_000))),
              lambda w: (*EVAL(w)[:6], "--languages", "de", "--split", "dev")), "de_toy-ud-dev.conllu.gz"),
    "lone surrogate in a text": (
        after(lambda w: write_massive(w, utt="\ud800", annot_utt="\ud800"),
              lambda w: ("eval", w.model, "--task", "intents", "--data", w.data, "--split", "dev")), "line 1"),
    "mask that is not JSON": (
        after(lambda w: w.write("mask.json", "{"), lambda w: (*EVAL(w), "--mask", w.mask)), "mask.json"),
    "mask that is too deep": (
        after(lambda w: w.write("mask.json", DEEP), lambda w: (*EVAL(w), "--mask", w.mask)), "mask.json"),
    "mask of another format": (
        after(lambda w: w.edit("mask.json", format="soup"), lambda w: (*EVAL(w), "--mask", w.mask)), "soup"),
    "mask of a later version": (
        after(lambda w: w.edit("mask.json", version=99), lambda w: (*EVAL(w), "--mask", w.mask)), "version 99"),
    "mask for other weights": (
        after(lambda w: w.edit("mask.json", fingerprint="0" * 16), lambda w: (*EVAL(w), "--mask", w.mask)), "weights"),
    "scores that are not JSON": (after(lambda w: w.write("run/scores/en.json", "{"), PRUNE), "en.json"),
    "scores with provenance in a list": (
        after(lambda w: w.edit("run/scores/en.json", provenance=[1]), PRUNE), "provenance = [1]"),
    "scores with units in words": (
        after(lambda w: w.edit("run/scores/en.json", provenance={"units": "many"}), PRUNE), "en.json"),
    "scores with infinite units": (
        after(lambda w: w.provenance(units=float("inf")), lambda w: ("report", w.run)), "units = inf"),
    "scores with versions in a list": (
        after(lambda w: w.provenance(versions=["5"]), lambda w: ("report", w.run)), "versions = "),
    "scores with a version in words": (
        after(lambda w: w.provenance(version="one"), lambda w: ("report", w.run)), "version = "),
    "scores with infinite counts": (
        after(lambda w: w.row(count=float("inf")), lambda w: ("report", w.run)), "en.json"),
    "config of a run with a wrong type": (
        after(lambda w: w.write("run/config.yaml", "model: 3\ntask: pos\ndata: x\n"), lambda w: ("report", w.run)),
        "'model' must be text"),
    "config of a run with a budget in words": (
        after(budget_in_words, lambda w: ("report", w.run)), "'budget' must be a number, not 'many'"),
    "config of a run with a number without end": (
        after(number_in_base_60, lambda w: ("report", w.run)), "a number of more than 100 characters"),
    "config of a run with aliases": (
        after(lambda w: w.write("run/config.yaml", "model: &x [1]\ntask: *x\n"), lambda w: ("report", w.run)), "alias"),
    "journal that is none": (
        after(lambda w: w.write("run/journal.sqlite", "x" * 5000), lambda w: (*w.scoring, "--out", w.run)), "journal"),
    "report through a loop of links": (
        after(make_loop,
              lambda w: ("report", w.run, "--out", w.here / "loop" / "page.html")), "loop"),
    "report over a loop of links": (
        after(make_loop, lambda w: ("report", w.run, "--out", w.here / "loop")), "not a page"),
    "merge into a loop of links": (
        after(make_loop, lambda w: ("merge", w.run, "--out", w.here / "loop")), "loop: cannot be written"),
    "run in a loop of links": (
        after(make_loop, lambda w: (*w.scoring, "--out", w.here / "loop")), "loop: cannot be written"),
    "output through a loop of links": (
        after(make_loop,
              lambda w: (*PRUNE(w)[:6], "--out", w.here / "loop")), "loop"),
    "journal with a text in place of arrays": (
        after(tamper_text, lambda w: (*w.scoring, "--languages", "en,sw", "--method", "permutation",
              "--out", w.run)), "is not binary"),
    "pruned model that is tied to a list": (
        after(lambda w: cut_all_heads(w, tied={"a": [1]}), lambda w: ("heads", w.here / "none")), "headwise.json"),
    "pruned model with a manifest of a wrong type": (
        after(lambda w: cut_all_heads(w, tied=[1]), lambda w: ("heads", w.here / "none")), "headwise.json"),
}  # fmt: skip
ALL = {name: (*case, code) for cases, code in ((USAGE, 2), (OPTIONS, 1), (FILES, 1)) for name, case in cases.items()}


def contents(folder: Path) -> dict[Path, bytes | None]:
    """The contents of all files in a folder; None for a folder. Journals and locks are left out."""
    skipped = ("journal.sqlite", "writer.")
    found = [path for path in folder.rglob("*") if not path.name.startswith(skipped)]
    return {path: path.read_bytes() if path.is_file() else None for path in found}


@pytest.mark.parametrize("name", ALL)
def test_a_mistake_is_named_in_one_sentence(
    name: str, world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    build, message, code = ALL[name]
    command = build(world)
    before = contents(world.here)
    monkeypatch.chdir(world.here)
    capfd.readouterr()
    assert run(monkeypatch, *command) == code
    error = capfd.readouterr().err
    assert "Traceback" not in error
    last = error.strip().splitlines()[-1] if code == 1 else error
    assert message in last
    if code == 1:
        assert last.startswith("headwise: ")
        assert len(last) < 600
    left = contents(world.here)
    assert {path: left.get(path) for path in before} == before, "nothing was changed"
    assert {path.name for path in left.keys() - before.keys()} <= {"out", "config.yaml"}


def test_there_are_many_mistakes() -> None:
    assert len(ALL) >= 80
