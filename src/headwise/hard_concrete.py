"""Hard Concrete gates (Louizos, Welling & Kingma, 2018): random gates that are often exactly 0 or 1.

With `u` uniform on (0, 1) and one parameter `ln α` per gate:

    s = σ((ln u − ln(1 − u) + ln α) / β),   g = min(1, max(0, s·(ζ − γ) + γ)),   β = 0.33, γ = −0.1, ζ = 1.1

A gate has a gradient with respect to `ln α`, and the expected number of gates that are not 0 has a closed form, so
both can be part of a training loss. This module needs torch alone.
"""

import math

import torch
from torch import Tensor, nn

#: Temperature of the distribution, and the ends of the interval that it is stretched to.
BETA, GAMMA, ZETA = 0.33, -0.1, 1.1


def sample_gates(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    """Gates from uniform numbers, differentiable with respect to `log_alpha`.

    Args:
        log_alpha: The parameters, (gates,).
        uniform: Numbers from 0 to 1, (gates,) or (rows, gates).
    """
    s = torch.sigmoid((torch.logit(uniform) + log_alpha) / BETA)
    return (s * (ZETA - GAMMA) + GAMMA).clamp(0.0, 1.0)


def open_probability(log_alpha: Tensor) -> Tensor:
    """The probability that each gate is not 0: `σ(ln α − β·ln(−γ/ζ))`."""
    return torch.sigmoid(log_alpha - BETA * math.log(-GAMMA / ZETA))


def one_probability(log_alpha: Tensor) -> Tensor:
    """The probability that each gate is exactly 1: `σ(ln α − β·ln((1 − γ)/(ζ − 1)))`."""
    return torch.sigmoid(log_alpha - BETA * math.log((1 - GAMMA) / (ZETA - 1)))


def decided_gates(log_alpha: Tensor) -> Tensor:
    """The gates after training, as booleans: whether P(g = 1) is larger than P(g = 0).

    The interval is stretched by the same length at both ends, so this is the case if and only if `ln α` is above 0.
    """
    return log_alpha > 0


def sampled_with_slopes(log_alpha: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Gates of several rows, and the derivative of each with respect to its parameter, (rows, gates) each.

    Args:
        log_alpha: The parameters, (gates,).
        uniform: Numbers from 0 to 1, (rows, gates).
    """
    each = log_alpha.expand(uniform.shape).detach().requires_grad_()
    gates = sample_gates(each, uniform)
    (slopes,) = torch.autograd.grad(gates.sum(), each)  # a gate depends on one parameter only
    return gates.detach(), slopes


def penalty_slope(log_alpha: Tensor) -> Tensor:
    """The derivative of `Σ P(gate is not 0)` with respect to each parameter, (gates,)."""
    probability = open_probability(log_alpha)
    return probability * (1 - probability)


class HardConcrete(nn.Module):
    """Hard Concrete gates as a module, for any training loop.

    In training mode, a call samples gates. In evaluation mode, it returns 0 or 1, whichever is more probable.

    Args:
        gates: Number of gates.
        log_alpha: The parameter `ln α` of all gates at the start. With 2, a gate is 1 with a probability of 0.77, and
            0 with a probability of 0.06.

    Example:
        Three lines in a training loop remove heads:

        >>> from headwise import find_heads, gated
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model = BertForSequenceClassification(config)
        >>> gates = HardConcrete(len(find_heads(model).players()))
        >>> optimizer = torch.optim.Adam([*model.parameters(), *gates.parameters()])
        >>> with gated(model, gates()):
        ...     loss = model(torch.tensor([[1, 2, 3]]), labels=torch.tensor([1])).loss
        >>> (loss + 0.01 * gates.penalty()).backward()
        >>> optimizer.step()
        >>> gates.eval()().tolist()
        [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(self, gates: int, log_alpha: float = 2.0) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.full((gates,), float(log_alpha)))

    def forward(self, rows: int | None = None) -> Tensor:
        """The gates, (gates,).

        Args:
            rows: Number of rows that get gates of their own, (rows, gates); None for one sample for the whole batch.
        """
        shape = self.log_alpha.shape if rows is None else (rows, *self.log_alpha.shape)
        if not self.training:
            return decided_gates(self.log_alpha).to(self.log_alpha.dtype).expand(shape)
        uniform = torch.rand(shape, device=self.log_alpha.device, dtype=self.log_alpha.dtype)
        return sample_gates(self.log_alpha, uniform)

    def penalty(self) -> Tensor:
        """The expected number of gates that are not 0, in closed form."""
        return self.open_probability().sum()

    def open_probability(self) -> Tensor:
        """The probability that each gate is not 0, (gates,)."""
        return open_probability(self.log_alpha)

    def one_probability(self) -> Tensor:
        """The probability that each gate is exactly 1, (gates,)."""
        return one_probability(self.log_alpha)
