"""Models whose attention is fixed by construction: every query of a head attends to one key that a rule chooses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from headwise.heads import find_heads
from headwise.roles.corpus import Corpus

#: From the tokens of queries and keys of an example, and its number, to the key of each query.
Rule = Callable[[Sequence[int], Sequence[int], int], Sequence[int]]


def plant(model: Any, corpus: Corpus, rules: Mapping[str, Rule]) -> None:
    """Fix the attention of a model: heads with a rule follow it, the others attend to all tokens they see alike.

    Args:
        model: The model.
        corpus: The examples that it will read.
        rules: The rules by the names of heads.
    """
    numbers = {tuple(each.ids): number for number, each in enumerate(corpus.examples.encoded)}
    assert len(numbers) == len(corpus.examples)
    reading: dict[str, Tensor] = {}
    modules = {model.get_submodule(site.attention): site for site in find_heads(model).sites}
    running: list[nn.Module] = []

    def read(_module: nn.Module, _args: Any, inputs: dict[str, Any]) -> None:
        reading.update(inputs)

    def enter(module: nn.Module, _args: Any) -> None:
        running.append(module)

    model.register_forward_pre_hook(read, with_kwargs=True)
    for module in modules:
        module.register_forward_pre_hook(enter)

    def attend(_module: nn.Module, query: Tensor, _key: Any, value: Tensor, _mask: Any, **_options: Any) -> Any:
        site = modules[running[-1]]
        scores = torch.full((*query.shape[:3], _key.shape[2]), -torch.inf)
        for row in range(len(query)):
            length = int(reading["attention_mask"][row].sum())
            source = reading["input_ids"][row, :length].tolist()
            number = numbers[tuple(source)]
            target = source
            if "decoder_input_ids" in reading:
                size = int(corpus.examples.target_lengths[number])
                target = reading["decoder_input_ids"][row, :size].tolist()
            queries = source if site.stack == "encoder" else target
            keys = target if site.stack == "decoder" else source
            for place, head in enumerate(site.players):
                if head in rules:
                    chosen = rules[head](queries, keys, number)
                    scores[row, place, torch.arange(len(queries)), torch.tensor(chosen)] = 0.0
                else:
                    seen = torch.ones(len(queries), len(keys), dtype=torch.bool)
                    seen = seen.tril() if site.stack == "decoder" else seen
                    scores[row, place, : len(queries), : len(keys)].masked_fill_(seen, 0.0)
            scores[row, :, len(queries) :, 0] = 0.0  # padding
        weights = nn.functional.softmax(scores, dim=-1)
        shared = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)
        return (weights @ shared).transpose(1, 2).contiguous(), weights

    AttentionInterface.register("planted", attend)
    model.config._attn_implementation = "planted"
    for module in model.modules():
        if hasattr(getattr(module, "config", None), "_attn_implementation"):
            module.config._attn_implementation = "planted"
