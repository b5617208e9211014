"""RA1: the representations of one input lie on a line, equally far apart."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.metrics.spectral import Scalar

Path = Float[Tensor, "*batch points units"]


def line_shape(path: Path) -> Scalar:
    r"""How far a path is from straight: 1 on a line, infinite when it goes nowhere.

    $$ \frac{L}{\bigl\|\sum_{i=1}^{L} \Delta_i/\|\Delta_i\|\bigr\|}, \qquad \Delta_i = h_{i+1} - h_i $$

    Steps in random directions of a high dimension have about $\sqrt L$. Steps of length zero, those of dead blocks,
    have no direction and are left out, of $L$ too.
    """
    steps, moved = _unit_steps(path)
    return moved.sum(-1) / torch.linalg.vector_norm(steps.sum(-2), dim=-1)


def step_cosine(path: Path) -> Scalar:
    r"""Mean cosine of adjacent steps, $\frac1{L-1}\sum_i\cos(\Delta_i, \Delta_{i+1})$: 1 on a line, 0 if random.

    Pairs with a step of length zero are left out; nan if none is left.
    """
    steps, moved = _unit_steps(path)
    both = moved[..., 1:] * moved[..., :-1]
    return (steps[..., 1:, :] * steps[..., :-1, :]).sum((-2, -1)) / both.sum(-1)


def spacing_variation(path: Path) -> Scalar:
    r"""Standard deviation of the lengths of steps over their mean: 0 if points are equally far apart."""
    lengths = torch.linalg.vector_norm(path.double().diff(dim=-2), dim=-1)
    return lengths.std(-1, correction=0) / lengths.mean(-1)


def _unit_steps(path: Path) -> tuple[Float[Tensor, "*batch steps units"], Float[Tensor, "*batch steps"]]:
    """Directions of the steps, zero where there is none, and 1 or 0 for whether there is one."""
    if path.shape[-2] < 2:
        raise ValueError(f"a path needs at least two points, got {path.shape[-2]}")
    steps = path.double().diff(dim=-2)
    lengths = torch.linalg.vector_norm(steps, dim=-1, keepdim=True)
    return torch.where(lengths > 0, steps / lengths, 0.0), (lengths > 0).double().squeeze(-1)
