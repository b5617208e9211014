"""Reference implementation of chains: one network, one layer, one matrix after another, samples in columns."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


class Drawer:
    """Gaussian weights as a caller's `init`, which keeps what every network drew."""

    def __init__(self, matrix: Callable[[int, int, torch.Generator], Tensor] | None = None) -> None:
        self.matrix = matrix or _gaussian
        self.weights: list[list[Tensor]] = []

    def __call__(self, layers: int, out: int, fan_in: int, generator: torch.Generator) -> Tensor:
        drawn = [self.matrix(out, fan_in, generator) for _ in range(layers)]
        self.weights.append(drawn)
        return torch.stack(drawn)


def uniform_weights(layers: int, out: int, fan_in: int, generator: torch.Generator) -> Tensor:
    """A caller's `init` whose law is not that of rotated weights: bounded entries of variance 1 / fan_in."""
    entries = torch.rand(layers, out, fan_in, generator=generator, dtype=torch.float64)
    return (2 * entries - 1) * math.sqrt(3 / fan_in)


def _gaussian(out: int, fan_in: int, generator: torch.Generator) -> Tensor:
    return torch.randn(out, fan_in, generator=generator, dtype=torch.float64) / math.sqrt(fan_in)


def slow_norm(columns: Tensor, norm: str) -> Tensor:
    """Rows are units, columns are samples: batch norm works on rows, layer and RMS norm on columns."""
    if norm == "none":
        return columns
    vectors = list(columns) if norm.startswith("batch") else list(columns.T)
    if norm in ("batch", "layer"):
        vectors = [vector - vector.sum() / len(vector) for vector in vectors]
    sizes = [((vector @ vector) / len(vector)).sqrt() for vector in vectors]
    # What is 0 everywhere stays 0.
    normed = torch.stack([vector / size if size > 0 else vector for vector, size in zip(vectors, sizes, strict=True)])
    return normed if norm.startswith("batch") else normed.T


def slow_chain(
    start: Tensor,
    weights: list[Tensor],
    *,
    norm: str = "none",
    activation: Callable[[Tensor], Tensor] = lambda x: x,
    norm_first: bool = True,
    gain: float = 1.0,
) -> list[Tensor]:
    """All representations (samples, units), the start first."""
    hidden = start.T
    found = [start]
    for weight in weights:
        hidden = weight @ hidden
        if norm_first:
            hidden = activation(gain * slow_norm(hidden, norm))
        else:
            hidden = slow_norm(activation(gain * hidden), norm)
        found.append(hidden.T)
    return found


def slow_gap(hidden: Tensor) -> float:
    """The orthogonality gap by its definition."""
    gram = hidden @ hidden.T / hidden.square().sum()
    return float((gram - torch.eye(len(hidden), dtype=torch.float64) / len(hidden)).square().sum().sqrt())


def standard_errors_apart(first: Tensor, second: Tensor) -> float:
    """Largest difference of two means over the first axis, in standard errors of the difference."""
    error = (first.var(0) / len(first) + second.var(0) / len(second)).sqrt()
    return float(((first.mean(0) - second.mean(0)).abs() / error).max())
