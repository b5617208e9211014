r"""Networks without normalisation and activation, $W_\ell\cdots W_1$: singular values that no floating point holds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Chain
from orthoscope.chains.graded import graded_log_singular_values
from orthoscope.chains.inputs import (
    WholeNumbers,
    check_chain,
    checked_depth,
    checked_layers,
    checked_seeds,
    checked_starts,
    whole_number,
)
from orthoscope.chains.sources import sources
from orthoscope.chains.triangles import Triangles, triangles

# Condition number from which samples count as dependent.
_DEPENDENT = 1e14


@dataclass(frozen=True)
class Products:
    """`log_singular_values[s, i]` are those of network s at layer `layers[i]`, largest first; `samples` rows."""

    layers: list[int]
    log_singular_values: Float[Tensor, "seeds layers rank"]
    samples: int

    @property
    def log_gap_distance(self) -> Float[Tensor, "seeds layers"]:
        r"""$\log(V_{\max} - V)$ of the orthogonality gap $V$, $V_{\max} = \sqrt{1 - 1/n}$, however close they are.

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


@torch.no_grad()
def vanilla_products(
    start: Tensor, chain: Chain, depth: int, *, seeds: WholeNumbers, layers: WholeNumbers | None = None
) -> Products:
    r"""Singular values of a batch $H$ after `depth` linear layers, $HW_1^\top\cdots W_\ell^\top$, one network a seed.

    `start` is as for `simulate`; an identity matrix gives the product itself. The product is kept as
    $Q_\ell\operatorname{diag}(e^{s})N$ with rows of $N$ of length one: a layer multiplies by the triangle of
    $W_\ell Q_{\ell-1} = Q_\ell R_\ell$, the sum for row $i$ being taken at its own scale. So thousands of layers
    neither overflow nor underflow, and small singular values are as accurate as large ones.
    """
    networks, depth = checked_seeds(seeds), checked_depth(depth)
    _check_linear(chain)
    starts, wanted = checked_starts(start, networks), checked_layers(layers, depth)
    frame, triangle = torch.linalg.qr(starts.mT)
    _check_rank(chain, frame.shape[-1])
    if not bool((torch.linalg.cond(triangle) < _DEPENDENT).all()):
        raise ValueError("samples of start are linearly dependent: their product has a singular value 0 from the start")
    factors = triangles(chain, sources(networks, starts.device), frame, depth)
    recorded = set(wanted)
    kept = {layer: graded for layer, graded in enumerate(_graded_rows(triangle, factors, chain)) if layer in recorded}
    rows = torch.stack([kept[layer][0] for layer in wanted], dim=1)
    scales = torch.stack([kept[layer][1] for layer in wanted], dim=1)
    values = graded_log_singular_values(rows.flatten(0, 1).mT, scales.flatten(0, 1))
    return Products(wanted, values.unflatten(0, (len(networks), len(wanted))), starts.shape[-2])


def _graded_rows(
    triangle: Float[Tensor, "seeds rank samples"], factors: Iterator[Triangles], chain: Chain
) -> Iterator[tuple[Float[Tensor, "seeds rank samples"], Float[Tensor, "seeds rank"]]]:
    r"""$N$ and $s$ of every layer.

    $$ N_i \leftarrow \sum_{j\ge i} R_{ij} e^{s_j - m_i} N_j, \qquad m_i = \max_{j \ge i} s_j $$
    """
    rows, scales = _unit_rows(triangle, torch.zeros_like(triangle[..., 0]))
    yield rows, scales
    for layer, factor in enumerate(factors, start=1):
        most = scales.flip(-1).cummax(-1).values.flip(-1)
        # Below the diagonal there is nothing, but its scale may overflow.
        weights = factor * (scales.unsqueeze(-2) - most.unsqueeze(-1)).clamp_max(0).exp()
        rows, scales = _unit_rows(weights @ rows, most + math.log(abs(chain.gain_of(layer))))
        yield rows, scales


def _unit_rows(rows: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    norms = torch.linalg.vector_norm(rows, dim=-1)
    return rows / norms.unsqueeze(-1), scales + norms.log()


@torch.no_grad()
def lyapunov(
    chain: Chain, depth: int, *, seeds: WholeNumbers, count: int | None = None, device: torch.device | None = None
) -> Float[Tensor, "seeds count"]:
    r"""Growth a layer of the first `count` directions (all by default), $\frac1L\sum_\ell \log|(R_\ell)_{ii}|$.

    Tends to $\lim \frac1L\log\sigma_i(W_L\cdots W_1)$ as $1/L$, with the exponents of `theory.lyapunov_exponents`.
    """
    networks, depth = checked_seeds(seeds), checked_depth(depth, least=1)
    _check_linear(chain)
    rank = chain.width if count is None else whole_number("count", count)
    _check_rank(chain, rank)
    identity = torch.eye(chain.width, rank, dtype=torch.float64, device=device)
    frame = checked_starts(identity, networks)
    total = torch.zeros(len(networks), rank, dtype=torch.float64, device=frame.device)
    for layer, factor in enumerate(triangles(chain, sources(networks, frame.device), frame, depth), start=1):
        total += factor.diagonal(dim1=-2, dim2=-1).abs().log() + math.log(abs(chain.gain_of(layer)))
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
