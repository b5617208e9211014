r"""Singular values that differ by more than floating point can hold: one-sided Jacobi on columns with log-scales."""

import torch
from jaxtyping import Float
from torch import Tensor

# Sweeps over all pairs; convergence is quadratic in the end and takes five to ten.
_MOST_SWEEPS = 40


def graded_log_singular_values(
    columns: Float[Tensor, "batch rows rank"], scales: Float[Tensor, "batch rank"]
) -> Float[Tensor, "batch rank"]:
    r"""$\log\sigma_i$ of $N\operatorname{diag}(e^{s})$, largest first, each as accurate as the columns of $N$ allow.

    Pairs of columns $e^{s_i}N_i$ and $e^{s_j}N_j$, $\rho = e^{s_j-s_i} \le 1$, are made orthogonal by rotations of
    tangent $\rho\tau$, until all are:

    $$ \tau = \frac{2\gamma}{\delta \pm \sqrt{\delta^2 + 4\rho^2\gamma^2}}, \qquad
       \delta = \rho^2\|N_j\|^2 - \|N_i\|^2, \quad \gamma = N_i\cdot N_j, \quad \pm = \operatorname{sign}\delta, $$
    $$ N_i \leftarrow c\,(N_i - \rho^2\tau N_j), \qquad N_j \leftarrow c\,(N_j + \tau N_i), \qquad
       c = 1/\sqrt{1+\rho^2\tau^2}. $$

    Nothing is lost when $\rho$ underflows. The relative error is that of columns of length one (Demmel & Veselić,
    1992), however small a singular value is beside the others.
    """
    rank = scales.shape[-1]
    tolerance = 4 * rank * torch.finfo(torch.float64).eps
    rounds = [torch.tensor(pairs, device=columns.device).T for pairs in _tournament(rank)]
    columns, scales = _sorted(columns, scales)
    for _ in range(_MOST_SWEEPS):
        cosines = [_rotate_(columns, scales, first, second) for first, second in rounds]
        columns, scales = _sorted(columns, scales)
        if all(bool(cosine <= tolerance) for cosine in cosines):
            break
    return scales


def _rotate_(columns: Tensor, scales: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Make pairs of columns orthogonal, in place; the largest cosine there was."""
    a, b = columns[..., first], columns[..., second]
    ratio = (scales[..., second] - scales[..., first]).exp()
    squares_a, squares_b, inner = a.square().sum(-2), b.square().sum(-2), (a * b).sum(-2)
    cosine = (inner.abs() / (squares_a * squares_b).sqrt()).max()
    difference = ratio.square() * squares_b - squares_a
    root = (difference.square() + 4 * (ratio * inner).square()).sqrt()
    tangent = 2 * inner / (difference + torch.where(difference > 0, root, -root))
    shrink = (1 + (ratio * tangent).square()).rsqrt().unsqueeze(-2)
    columns[..., first] = shrink * (a - (ratio.square() * tangent).unsqueeze(-2) * b)
    columns[..., second] = shrink * (b + tangent.unsqueeze(-2) * a)
    return cosine


def _sorted(columns: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Columns of length one, the longest first."""
    norms = torch.linalg.vector_norm(columns, dim=-2)
    lengths = scales + norms.log()
    order = lengths.argsort(dim=-1, descending=True)
    units = columns / norms.unsqueeze(-2)
    return units.gather(-1, order.unsqueeze(-2).expand_as(units)), lengths.gather(-1, order)


def _tournament(players: int) -> list[list[tuple[int, int]]]:
    """Rounds in which every player meets another, until all have met; with an odd number one rests."""
    table = list(range(players + players % 2))
    rounds = []
    for _ in table[1:]:
        pairs = [(min(pair), max(pair)) for pair in zip(table, table[::-1], strict=True)][: len(table) // 2]
        rounds.append([pair for pair in pairs if pair[1] < players])
        table = [table[0], table[-1], *table[1:-1]]
    return [pairs for pairs in rounds if pairs]
