r"""Networks without normalization and activation, $W_\ell\cdots W_1$: singular values beyond the range of floats.

Three steps: the product as triangles, $W_\ell Q_{\ell-1} = Q_\ell R_\ell$; their product with a logarithmic scale for
every row; and a one-sided Jacobi method that keeps those scales. A layer costs r²d for r samples of width d with
Gaussian weights and rd² otherwise, a recorded layer r³ for every one of about ten sweeps.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Chain
from orthoscope.chains.inputs import (
    WholeNumbers,
    check_chain,
    checked_depth,
    checked_layers,
    checked_seeds,
    checked_starts,
    whole_number,
)
from orthoscope.chains.simulation import group_bytes, groups
from orthoscope.chains.weights import BLOCK, RandomStream, drawn_weights, layer_groups, normal_blocks, random_streams

Triangles = Float[Tensor, "seeds rank rank"]

# Condition number from which samples count as linearly dependent.
_DEPENDENT = 1e14
# Sweeps over all pairs of columns; convergence is quadratic in the end and takes five to ten.
_MAX_SWEEPS = 40


@dataclass(frozen=True)
class Products:
    """Singular values of products of weights, from `vanilla_products`.

    Attributes:
        layers: The layers that were recorded.
        log_singular_values: `[s, i]` are those of network s at layer `layers[i]`, largest first.
        samples: Number of samples in the batch.
    """

    layers: list[int]
    log_singular_values: Float[Tensor, "seeds layers rank"]
    samples: int

    @property
    def log_gap_distance(self) -> Float[Tensor, "seeds layers"]:
        r"""$\log(V_{\max} - V)$ of the orthogonality gap $V$, $V_{\max} = \sqrt{1 - 1/n}$, without cancellation.

        $$ V_{\max} - V = \frac{V_{\max}^2 - V^2}{V_{\max} + V}, \qquad
           V_{\max}^2 - V^2 = 1 - \sum_i p_i^2 = 2\sum_{i<j} p_i p_j, \qquad
           p_i = \sigma_i^2\Big/\sum_j\sigma_j^2. $$
        """
        shares = (2 * self.log_singular_values).log_softmax(-1)
        first, second = torch.triu_indices(shares.shape[-1], shares.shape[-1], 1, device=shares.device)
        difference = (shares[..., first] + shares[..., second]).logsumexp(-1) + math.log(2)
        most = 1 - 1 / self.samples
        gap = (most - difference.exp()).clamp_min(0).sqrt()
        return difference - (math.sqrt(most) + gap).log()


def vanilla_products(
    start: Tensor, chain: Chain, depth: int, *, seeds: WholeNumbers, layers: WholeNumbers | None = None
) -> Products:
    r"""Return singular values of a batch $H$ after linear layers, $HW_1^\top\cdots W_\ell^\top$, one network per seed.

    The product is kept as $Q_\ell\operatorname{diag}(e^{s})N$ with rows of $N$ of length one: a layer multiplies by
    the triangle of $W_\ell Q_{\ell-1} = Q_\ell R_\ell$, the sum for row $i$ being taken at its own scale. So thousands
    of layers neither overflow nor underflow, and small singular values are as accurate as large ones.

    Args:
        start: Linearly independent samples, as for `simulate`; an identity matrix gives the product itself.
        chain: The layers, without norm and activation.
        depth: Number of layers.
        seeds: One for every network.
        layers: Layers to record, 0 for the start; all by default.
    """
    networks, depth = checked_seeds(seeds), checked_depth(depth)
    _check_linear(chain)
    starts, wanted = checked_starts(start, networks), checked_layers(layers, depth)
    samples, fan_in = starts.shape[-2:]
    rank = min(samples, fan_in)
    _check_rank(chain, rank)
    held = _held(chain, rank) + 8 * len(wanted) * rank * samples
    values = [
        _log_singular_values(starts[group], chain, depth, networks[group], wanted)
        for group in groups(len(networks), held, group_bytes(starts.device))
    ]
    return Products(wanted, torch.cat(values), samples)


@torch.no_grad()
def lyapunov(
    chain: Chain, depth: int, *, seeds: WholeNumbers, count: int | None = None, device: torch.device | None = None
) -> Float[Tensor, "seeds count"]:
    r"""Return the growth per layer $\frac1L\sum_\ell \log|(R_\ell)_{ii}|$ of the first `count` directions, default all.

    Tends to $\lim \frac1L\log\sigma_i(W_L\cdots W_1)$ as $1/L$, with the exponents of `theory.lyapunov_exponents`.

    Args:
        chain: The layers, without norm and activation.
        depth: Number of layers $L$.
        seeds: One for every network.
        count: Number of directions, by default the width.
        device: Where to compute; by default the CPU.
    """
    networks, depth = checked_seeds(seeds), checked_depth(depth, least=1)
    _check_linear(chain)
    rank = chain.width if count is None else whole_number("count", count)
    _check_rank(chain, rank)
    frame = checked_starts(torch.eye(chain.width, rank, dtype=torch.float64, device=device), networks)
    total = torch.zeros(len(networks), rank, dtype=torch.float64, device=frame.device)
    for group in groups(len(networks), _held(chain, rank), group_bytes(frame.device)):
        streams = random_streams(networks[group], frame.device)
        for layer, triangle in enumerate(_triangles(chain, streams, frame[group], depth), start=1):
            total[group] += triangle.diagonal(dim1=-2, dim2=-1).abs().log() + math.log(abs(chain.gain_of(layer)))
    return total / depth


def _check_linear(chain: Chain) -> None:
    check_chain(chain)
    if chain.norm != "none" or chain.function is not None:
        raise ValueError(
            f"a product has neither norm nor activation, got {chain.norm!r} and {chain.activation!r}: use simulate"
        )


def _check_rank(chain: Chain, rank: int) -> None:
    if not 1 <= rank <= chain.width:
        raise ValueError(f"{rank} directions do not fit width {chain.width}: give 1 to {chain.width}")


def _held(chain: Chain, rank: int) -> int:
    """Bytes of the random numbers that a network holds at a time."""
    return 8 * max(BLOCK, chain.width * (rank if chain.init == "gaussian" else chain.width))


@torch.no_grad()
def _log_singular_values(
    starts: Float[Tensor, "seeds samples units"], chain: Chain, depth: int, seeds: Sequence[int], layers: list[int]
) -> Float[Tensor, "seeds layers rank"]:
    frame, triangle = torch.linalg.qr(starts.mT)
    if not bool((torch.linalg.cond(triangle) < _DEPENDENT).all()):
        raise ValueError("samples of start are linearly dependent: their product has a singular value 0 from the start")
    factors = _triangles(chain, random_streams(seeds, starts.device), frame, depth)
    recorded = set(layers)
    kept = {layer: graded for layer, graded in enumerate(_graded_rows(triangle, factors, chain)) if layer in recorded}
    rows = torch.stack([kept[layer][0] for layer in layers], dim=1)
    scales = torch.stack([kept[layer][1] for layer in layers], dim=1)
    values = graded_log_singular_values(rows.flatten(0, 1).mT, scales.flatten(0, 1))
    return values.unflatten(0, (len(seeds), len(layers)))


def _triangles(
    chain: Chain, streams: Sequence[RandomStream], frame: Float[Tensor, "seeds fan_in rank"], layers: int
) -> Iterator[Triangles]:
    r"""Yield $R_1, R_2, \dots$ of $W_\ell Q_{\ell-1} = Q_\ell R_\ell$, $Q_0$ the `frame`, without gains.

    The law of a Gaussian $WQ$ does not depend on $Q$: its triangle has independent entries
    $R_{ij} \sim \mathcal N(0, 1/\text{fan\_in})$ above the diagonal, and $R_{jj}$ is the norm of the remaining
    $d-j+1$ normal numbers (Bartlett, 1933); neither $W$ nor $Q$ is needed.
    """
    fan_in, rank = frame.shape[-2:]
    for inputs, count in layer_groups(fan_in, chain.width, layers):
        if chain.init == "gaussian":
            for block in normal_blocks(streams, (rank, chain.width), count):
                norms = torch.linalg.vector_norm(block.triu(), dim=-1)
                strict = block[..., :rank].tril(-1).mT
                yield from ((strict + torch.diag_embed(norms)) / math.sqrt(inputs)).unbind(1)
        else:
            for weight in drawn_weights(chain, streams, inputs, count):
                frame, triangle = torch.linalg.qr(weight @ frame)
                yield triangle


def _graded_rows(
    triangle: Float[Tensor, "seeds rank samples"], factors: Iterator[Triangles], chain: Chain
) -> Iterator[tuple[Float[Tensor, "seeds rank samples"], Float[Tensor, "seeds rank"]]]:
    r"""Yield $N$ and $s$ of every layer.

    $$ N_i \leftarrow \sum_{j\ge i} R_{ij} e^{s_j - m_i} N_j, \qquad m_i = \max_{j \ge i} s_j $$
    """
    rows, scales = _unit_rows(triangle, torch.zeros_like(triangle[..., 0]))
    yield rows, scales
    for layer, factor in enumerate(factors, start=1):
        most = scales.flip(-1).cummax(-1).values.flip(-1)
        # Entries below the diagonal are 0, but their scale may overflow.
        weights = factor * (scales.unsqueeze(-2) - most.unsqueeze(-1)).clamp_max(0).exp()
        rows, scales = _unit_rows(weights @ rows, most + math.log(abs(chain.gain_of(layer))))
        yield rows, scales


def _unit_rows(rows: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    norms = torch.linalg.vector_norm(rows, dim=-1)
    return rows / norms.unsqueeze(-1), scales + norms.log()


def graded_log_singular_values(
    columns: Float[Tensor, "batch rows rank"], scales: Float[Tensor, "batch rank"]
) -> Float[Tensor, "batch rank"]:
    r"""Return $\log\sigma_i$ of $N\operatorname{diag}(e^{s})$, largest first, by one-sided Jacobi rotations.

    Pairs of columns $e^{s_i}N_i$ and $e^{s_j}N_j$, $\rho = e^{s_j-s_i} \le 1$, are made orthogonal by rotations of
    tangent $\rho\tau$, until all are:

    $$ \tau = \frac{2\gamma}{\delta \pm \sqrt{\delta^2 + 4\rho^2\gamma^2}}, \qquad
       \delta = \rho^2\|N_j\|^2 - \|N_i\|^2, \quad \gamma = N_i\cdot N_j, \quad \pm = \operatorname{sign}\delta, $$
    $$ N_i \leftarrow c\,(N_i - \rho^2\tau N_j), \qquad N_j \leftarrow c\,(N_j + \tau N_i), \qquad
       c = 1/\sqrt{1+\rho^2\tau^2}. $$

    Nothing is lost when $\rho$ underflows. The relative error of every singular value is that of a matrix with columns
    of length one (Demmel & Veselić, 1992), however small the value is relative to the others.
    """
    rank = scales.shape[-1]
    tolerance = 4 * rank * torch.finfo(torch.float64).eps
    rounds = [torch.tensor(pairs, device=columns.device).T for pairs in _tournament(rank)]
    columns, scales = _sorted(columns, scales)
    for _ in range(_MAX_SWEEPS):
        cosines = [_rotate_(columns, scales, first, second) for first, second in rounds]
        columns, scales = _sorted(columns, scales)
        if all(bool(cosine <= tolerance) for cosine in cosines):
            break
    return scales


def _rotate_(columns: Tensor, scales: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Make pairs of columns orthogonal, in place, and return the largest cosine there was."""
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
    """Scale columns to length one and sort them, the longest first."""
    norms = torch.linalg.vector_norm(columns, dim=-2)
    lengths = scales + norms.log()
    order = lengths.argsort(dim=-1, descending=True)
    units = columns / norms.unsqueeze(-2)
    return units.gather(-1, order.unsqueeze(-2).expand_as(units)), lengths.gather(-1, order)


def _tournament(players: int) -> list[list[tuple[int, int]]]:
    """Return rounds of disjoint pairs, in which all pairs occur once; with an odd number one rests in each round."""
    table = list(range(players + players % 2))
    rounds = []
    for _ in table[1:]:
        pairs = [(min(pair), max(pair)) for pair in zip(table, table[::-1], strict=True)][: len(table) // 2]
        rounds.append([pair for pair in pairs if pair[1] < players])
        table = [table[0], table[-1], *table[1:-1]]
    return [pairs for pairs in rounds if pairs]
