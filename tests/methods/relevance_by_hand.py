"""Relevance of the heads of a BERT by the formulas of the rules: relevance layer by layer, without autograd."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.propagation import RuleName

Array = NDArray[np.float64]


def split_sum(r: Array, parts: list[Array]) -> list[Array]:
    """A sum gives every part its share."""
    total = sum(parts, start=np.zeros_like(r))
    return [part / total * r for part in parts]


def shares_of(parts: Array, bias: float, rule: RuleName) -> Array:
    """The share of each input in the sum of all parts and a bias; `voita` gives the share of the bias to the inputs."""
    given = bias * np.abs(parts) / np.abs(parts).sum() if rule == "voita" else np.zeros_like(parts)
    return np.asarray((parts + given) / (parts.sum() + bias))


def through_linear(r: Array, x: Array, module: Any, rule: RuleName) -> Array:
    """`R_i = Σ_j W_ji·x_i·R_j / z_j`, token by token."""
    weight, bias = numbers(module.weight), numbers(module.bias)
    found = np.zeros_like(x)
    for t in range(len(x)):
        for j in range(len(weight)):
            found[t] += shares_of(weight[j] * x[t], bias[j], rule) * r[t, j]
    return found


def through_norm(r: Array, x: Array, module: Any, rule: RuleName) -> Array:
    """Layer norm as the linear map `y_j = γ_j·(x_j − mean)/σ + β_j` with a constant σ."""
    gamma, beta, width = numbers(module.weight), numbers(module.bias), x.shape[1]
    found = np.zeros_like(x)
    for t in range(len(x)):
        sigma = math.sqrt(x[t].var() + module.eps)
        for j in range(width):
            parts = gamma[j] * ((np.arange(width) == j) - 1 / width) * x[t] / sigma
            found[t] += shares_of(parts, beta[j], rule) * r[t, j]
    return found


def through_attention(r: Array, q: Array, k: Array, v: Array, s: Array, rule: RuleName) -> tuple[Array, Array, Array]:
    """The relevance of a head's queries, keys and values, from that of its output."""
    tokens, width = q.shape
    rq, rk, rv, rs = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v), np.zeros_like(s)
    half = 0.5 if rule == "attnlrp" else 1.0
    for i in range(tokens):
        for d in range(width):
            parts = s[i] * v[:, d]  # one for each token that is attended to
            given = half * parts * r[i, d] / parts.sum()
            rv[:, d] += given
            rs[i] += given
    if rule != "attnlrp":
        return rq, rk, rv
    x = q @ k.T / math.sqrt(width)
    for i in range(tokens):
        rx = x[i] * (rs[i] - s[i] * rs[i].sum())
        for j in range(tokens):
            parts = q[i] * k[j] / math.sqrt(width)
            rq[i] += parts * rx[j] / (2 * x[i, j])
            rk[j] += parts * rx[j] / (2 * x[i, j])
    return rq, rk, rv


def numbers(weight: Any) -> Array:
    return np.asarray(weight.detach().double().numpy())


def apply(module: Any, x: Array) -> Array:
    """The output of a linear layer or of a layer norm."""
    if hasattr(module, "eps"):
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + module.eps)
        return np.asarray(x * numbers(module.weight) + numbers(module.bias))
    return np.asarray(x @ numbers(module.weight).T + numbers(module.bias))


def gelu(x: Array) -> Array:
    return np.asarray(x * np.vectorize(lambda each: 0.5 * (1 + math.erf(each / math.sqrt(2))))(x))


class LayerByHand:
    """One layer of BERT: its forward pass keeps everything that relevance needs."""

    def __init__(self, layer: Any, x: Array, heads: int) -> None:
        attention, self.layer, self.x, self.heads = layer.attention, layer, x, heads
        self.q, self.k, self.v = (
            np.split(apply(each, x), heads, axis=1)
            for each in (attention.self.query, attention.self.key, attention.self.value)
        )
        scores = [q @ k.T / math.sqrt(q.shape[1]) for q, k in zip(self.q, self.k, strict=True)]
        self.s = [np.exp(each) / np.exp(each).sum(1, keepdims=True) for each in scores]
        self.context = np.concatenate([s @ v for s, v in zip(self.s, self.v, strict=True)], axis=1)
        self.added = apply(attention.output.dense, self.context)
        self.middle = apply(attention.output.LayerNorm, self.added + x)
        self.wide = gelu(apply(layer.intermediate.dense, self.middle))
        self.ffn = apply(layer.output.dense, self.wide)
        self.output = apply(layer.output.LayerNorm, self.ffn + self.middle)

    def down(self, r: Array, rule: RuleName) -> tuple[Array, Array]:
        """The relevance of each head, (heads,), and of the layer's input, (tokens, features)."""
        attention, layer = self.layer.attention, self.layer
        r = through_norm(r, self.ffn + self.middle, layer.output.LayerNorm, rule)
        r_ffn, r_middle = split_sum(r, [self.ffn, self.middle])
        r_wide = through_linear(r_ffn, self.wide, layer.output.dense, rule)  # the activation passes it on
        r_middle = r_middle + through_linear(r_wide, self.middle, layer.intermediate.dense, rule)
        r = through_norm(r_middle, self.added + self.x, attention.output.LayerNorm, rule)
        r_added, r_x = split_sum(r, [self.added, self.x])
        by_head = np.split(through_linear(r_added, self.context, attention.output.dense, rule), self.heads, axis=1)
        parts = [through_attention(*each, rule) for each in zip(by_head, self.q, self.k, self.v, self.s, strict=True)]
        maps = attention.self.query, attention.self.key, attention.self.value
        for module, found in zip(maps, zip(*parts, strict=True), strict=True):
            r_x = r_x + through_linear(np.concatenate(found, axis=1), self.x, module, rule)
        return np.array([each.sum() for each in by_head]), r_x


def heads_by_hand(model: Any, embedded: Array, rule: RuleName) -> Array:
    """The relevance of all heads of a BERT that classifies tokens to the mean largest logit, (layers, heads)."""
    layers: list[LayerByHand] = []
    for layer in model.base_model.encoder.layer:
        layers.append(LayerByHand(layer, layers[-1].output if layers else embedded, model.config.num_attention_heads))
    logits = apply(model.classifier, layers[-1].output)  # (tokens, labels)
    r = np.where(logits == logits.max(1, keepdims=True), logits, 0.0) / len(logits)
    r = through_linear(r, layers[-1].output, model.classifier, rule)
    found = []
    for layer in reversed(layers):
        heads, r = layer.down(r, rule)
        found.append(heads)
    return np.array(found[::-1])
