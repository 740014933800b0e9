"""Mean ablation: a gate of 1 changes nothing, a gate of 0 leaves the mean, and everything between interpolates."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from headwise import HeadwiseError, LanguageMasks, find_heads, gated, shrink
from headwise.activations import TokenBatch
from headwise.engine import mean_outputs
from headwise.errors import MaskMismatchError
from headwise.heads import PlayerKind
from headwise.means import MeanOutputs, collect_means
from tests.engine.worlds import ANSWERING, make_examples
from tests.families import BY_NAME, Case, difference, inputs_for, no_trace_left, outputs_of, random_mask, row_of
from tests.means import means_of, token_batch


@pytest.mark.parametrize("kind", ["heads", "ffn"])
@torch.no_grad()
def test_gates_of_one_change_nothing(case: Case, kind: PlayerKind) -> None:
    model, inputs = case.build(), inputs_for(case)
    expected, means = outputs_of(model, inputs), means_of(case, model)
    with no_trace_left(model):
        with gated(model, torch.ones(len(find_heads(model).players(kind))), kind, baseline=means):
            found = outputs_of(model, inputs)
        assert torch.equal(found, expected)
        with gated(model, torch.zeros(len(find_heads(model).players(kind))), kind, baseline=means):
            assert difference(outputs_of(model, inputs), expected) > 1e-3


@pytest.mark.parametrize("name", ["xlm-roberta", "llama", "gpt2"])
@torch.no_grad()
def test_a_gate_mixes_a_heads_output_with_its_mean(name: str) -> None:
    """Against a hook of our own on the input of every output projection."""
    case = BY_NAME[name]
    model, inputs = case.build(), inputs_for(case)
    heads, means = find_heads(model), means_of(case, model)
    gates = torch.rand(3, len(heads.players()), generator=torch.Generator().manual_seed(0))  # one row per example

    def mixing(site: Any, columns: slice) -> Any:
        def mix(_module: Any, args: tuple[Tensor]) -> tuple[Tensor]:
            parts = args[0].unflatten(-1, (len(site.heads), site.head_width))  # (rows, tokens, heads, width)
            mean = means.values[site.name].view(len(site.heads), site.head_width)
            gate = gates[:, None, columns, None]
            return ((gate * parts + (1 - gate) * mean).flatten(-2),)

        return mix

    handles = [
        model.get_submodule(site.output).register_forward_pre_hook(mixing(site, columns))
        for site, columns in heads.spans()
    ]
    expected = outputs_of(model, inputs)
    for handle in handles:
        handle.remove()
    with gated(model, gates, baseline=means):
        assert difference(outputs_of(model, inputs), expected) < 1e-5


@pytest.mark.parametrize("kind", ["heads", "ffn"])
def test_the_gradient_of_a_gate_is_that_of_finite_differences(kind: PlayerKind) -> None:
    case = BY_NAME["xlm-roberta"]
    model, inputs = case.build().double(), inputs_for(case)
    means = means_of(case, model)
    gates = torch.rand(len(find_heads(model).players(kind)), dtype=torch.double, requires_grad=True)

    def value(at: Tensor) -> Tensor:
        with gated(model, at, kind, baseline=means):
            return outputs_of(model, inputs).pow(2).mean()

    (found,) = torch.autograd.grad(value(gates), gates)
    for place in range(len(gates)):
        step = torch.zeros_like(gates)
        step[place] = 1e-5
        with torch.no_grad():
            slope = (value(gates + step) - value(gates - step)) / 2e-5
        assert found[place] == pytest.approx(float(slope), rel=1e-5, abs=1e-9)


@torch.no_grad()
def test_means_are_those_of_a_plain_loop_over_tokens(case: Case) -> None:
    model, inputs = case.build(), inputs_for(case)
    heads, found = find_heads(model), collect_means(model, [token_batch(case, inputs)])
    for site in heads.sites:
        seen: list[Tensor] = []
        module = model.get_submodule(site.output)
        handle = module.register_forward_pre_hook(lambda _module, args, seen=seen: seen.append(args[0]))
        for row in range(3):
            one, tokens = row_of(inputs, row), int(inputs["attention_mask"][row].sum())
            model(**one)
            in_decoder = case.seq2seq and site.stack != "encoder"
            seen[-1] = seen[-1][0, : None if in_decoder else tokens]
        handle.remove()
        assert difference(found.values[site.name], torch.cat(seen).mean(0)) < 1e-5
    assert {name for name in found.values if ".ffn." in name} == set(heads.players("ffn"))


@pytest.mark.parametrize("case", ANSWERING, ids=lambda case: case.name)
@torch.no_grad()
def test_means_do_not_depend_on_the_batches(case: Case) -> None:
    model = case.build()
    heads, examples = find_heads(model), make_examples(case, model)
    packed, sums, count = mean_outputs(model, heads, examples), dict[str, Tensor](), dict[str, int]()
    for example in range(len(examples)):  # every example alone, so there is no padding
        batch = examples.task.make_batch(model, examples.encoded, [example], examples.pad_id)
        source = batch.attention_mask.bool()
        size = int(examples.target_lengths[example])
        target = torch.ones(1, size, dtype=torch.bool) if size else source
        tokens = {"encoder": source, "decoder": target, "cross": target}
        alone = TokenBatch(batch.inputs(torch.device("cpu")), tokens, torch.tensor([0]))  # type: ignore[arg-type]
        for name, mean in collect_means(model, [alone]).values.items():
            own = int((source if name.startswith("encoder") else target).sum())
            sums[name], count[name] = sums.get(name, 0) + own * mean, count.get(name, 0) + own
    for name, total in sums.items():
        assert difference(packed.values[name], total / count[name]) < 1e-5


@torch.no_grad()
def test_every_row_can_have_means_of_its_own() -> None:
    case = BY_NAME["marian"]
    model, inputs = case.build(), inputs_for(case)
    one, other = means_of(case, model, seed=5), means_of(case, model, seed=6)
    mask = random_mask(find_heads(model), 3)
    with gated(model, mask, baseline=[one, other, one]):
        found = outputs_of(model, inputs)
    for row, means in enumerate([one, other, one]):
        with gated(model, mask, baseline=means):
            assert difference(outputs_of(model, row_of(inputs, row)), found[row : row + 1]) < 1e-5
    with gated(model, mask.tensor().float().expand(2, -1), baseline=[one, other]):
        rows = {name: tensor[:2] for name, tensor in inputs.items() if name != "decoder_input_ids"}
        several = model.generate(**rows, num_beams=2, max_new_tokens=4)
    with gated(model, mask, baseline=other):
        alone = model.generate(**row_of(rows, 1), num_beams=2, max_new_tokens=4)
    assert several[1, : alone.shape[1]].tolist() == alone[0].tolist()


@torch.no_grad()
def test_language_masks_use_the_means_of_each_language(tmp_path: Path) -> None:
    case = BY_NAME["xlm-roberta"]
    model, inputs = case.build(), inputs_for(case)
    means = {"sw": means_of(case, model, 5), "zh": means_of(case, model, 6)}
    masks = {code: random_mask(find_heads(model), seed) for seed, code in enumerate(means)}
    served = LanguageMasks(model, masks, means=means)
    with served.use(["zh", "sw", "zh"]):
        found = outputs_of(model, inputs)
    for row, code in enumerate(["zh", "sw", "zh"]):
        with gated(model, masks[code], baseline=means[code]):
            assert difference(outputs_of(model, row_of(inputs, row))[0, :5], found[row, :5]) < 1e-5
    with served.use("sw"), pytest.raises(HeadwiseError, match="already gated"), served.use("zh"):
        pass
    with pytest.raises(HeadwiseError, match="'zh' has no means"):
        LanguageMasks(model, masks, means={"sw": means["sw"]})
    with pytest.raises(HeadwiseError, match="cannot hold means"):
        served.save(tmp_path / "masks.json")


def test_means_are_saved_and_loaded_exactly(tmp_path: Path) -> None:
    case = BY_NAME["llama"]
    model = case.build()
    means = means_of(case, model)
    means.save(tmp_path / "sw.safetensors")
    loaded = MeanOutputs.load(tmp_path / "sw.safetensors")
    assert repr(loaded) == repr(means)
    assert (loaded.players, loaded.fingerprint) == (means.players, means.fingerprint)
    assert loaded.values.keys() == means.values.keys()
    assert all(torch.equal(loaded.values[name], means.values[name]) for name in means.values)
    loaded.check(find_heads(model))


def test_means_of_another_model_are_refused() -> None:
    case = BY_NAME["bert"]
    model = case.build()
    means = means_of(case, model)
    gates = torch.ones(12)
    with pytest.raises(MaskMismatchError, match="compute the means again"), gated(case.build(1), gates, baseline=means):
        pass
    smaller = shrink(model, random_mask(find_heads(model), 1))
    with pytest.raises(MaskMismatchError, match="12 players"):
        means.check(find_heads(smaller))
    kept = means.restricted_to(find_heads(smaller))
    kept.check(find_heads(smaller))
    site = find_heads(smaller).sites[0]
    expected = means.values[site.name].view(4, 8)[list(site.heads)].flatten()
    assert torch.equal(kept.values[site.name], expected)


def test_layers_have_no_mean() -> None:
    case = BY_NAME["bert"]
    model = case.build()
    means = means_of(case, model)
    with pytest.raises(HeadwiseError, match="no mean output"), gated(model, torch.ones(3), "layers", baseline=means):
        pass


@pytest.mark.parametrize(
    ("about", "values", "said"),
    [
        ("[" * 5000, {}, "cannot be read"),
        ('{"format": "headwise-means", "version": 1, "language": 3}', {}, "'language' must be text or null"),
        ('{"format": "headwise-means", "version": 1}', {"encoder.0": torch.ones(2, 2)}, "not a list of real numbers"),
        ('{"format": "headwise-means", "version": 1}', {"encoder.0": torch.ones(2).int()}, "not a list of real"),
        ('{"format": "headwise-means", "version": 1, "heads": 5}', {}, "'heads'"),
    ],
)
def test_means_of_wrong_types_are_named(tmp_path: Path, about: str, values: dict[str, torch.Tensor], said: str) -> None:
    path = tmp_path / "means.safetensors"
    save_file(values, path, metadata={"headwise": about})
    with pytest.raises(HeadwiseError, match=rf"means\.safetensors: .*{said}"):
        MeanOutputs.load(path)


@pytest.mark.parametrize("content", [b"", b"nothing", b"\x10\0\0\0\0\0\0\0{}              "])
def test_a_file_without_means_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "means.safetensors"
    path.write_bytes(content)
    with pytest.raises(HeadwiseError, match=r"means\.safetensors: .*mean outputs"):
        MeanOutputs.load(path)
    with pytest.raises(HeadwiseError, match="missing"):
        MeanOutputs.load(tmp_path / "missing.safetensors")
