"""Li & Papyan (2023), appendix: residual alignment."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from orthoscope.theory.residual.alignment import aligned_representations, equispacing_singular_values
from orthoscope_papers.errata import Erratum, Statement

Vector = Float[Tensor, "units"]

ROUNDING = 1e-10


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _between(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


# Theorem 3.1.


def _after_blocks(initial: Vector, direction: Vector, blocks: int) -> Vector:
    """h_{k}, k = blocks + 1, by multiplying the blocks I + uuᵀ/i one after the other."""
    state = initial
    for block in range(1, blocks + 1):
        state = state + direction * (direction @ state) / block
    return state


def _only_the_direction_is_left() -> Statement:
    initial, direction = torch.eye(2, dtype=torch.float64).sum(0), torch.eye(2, dtype=torch.float64)[0]
    printed = 4 * direction * (direction @ initial)
    return Statement(float((_after_blocks(initial, direction, 3) - printed).norm()), "=", 0.0, ROUNDING)


def _the_rest_stays(initial: Vector, direction: Vector, blocks: int) -> Statement:
    formula = aligned_representations(
        initial, direction.unsqueeze(-1), equispacing_singular_values(blocks).unsqueeze(-1)
    )
    difference = formula[-1] - _after_blocks(initial, direction, blocks)
    return Statement(float(difference.norm()), "=", 0.0, ROUNDING)


def _rest_at_case() -> Statement:
    return _the_rest_stays(torch.ones(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)[0], 3)


def _rest_at_random(generator: torch.Generator) -> Statement:
    units = _between(generator, 1, 8)
    direction = normalize(_normal(generator, units), dim=0)
    return _the_rest_stays(_normal(generator, units), direction, _between(generator, 1, 12))


# When the bound on the logit is attained.


def _attained(difference: Vector, head: Vector, singular_values: Float[Tensor, "layers"]) -> Statement:
    """Logit over its bound tr S_{L+1} Π(I + S_i), for Jacobians s_i uvᵀ, u and v the singular vectors of Δx wᵀ."""
    left, right = normalize(difference, dim=0), normalize(head, dim=0)
    state = difference
    for value in singular_values:
        state = state + value * left * (right @ state)
    bound = head.norm() * difference.norm() * (1 + singular_values).prod()
    return Statement(float(head @ state / bound), "=", 1.0, ROUNDING)


def _attained_when_symmetric() -> Statement:
    difference = torch.eye(2, dtype=torch.float64)[0]
    return _attained(difference, -difference, torch.full((1,), 0.5, dtype=torch.float64))


def _attained_at_case() -> Statement:
    difference = torch.eye(2, dtype=torch.float64)[0]
    return _attained(difference, difference, torch.full((1,), 0.5, dtype=torch.float64))


def _attained_at_random(generator: torch.Generator) -> Statement:
    difference = _normal(generator, _between(generator, 1, 8))
    values = _normal(generator, _between(generator, 1, 8)).abs()
    return _attained(difference, difference * float(_normal(generator).exp()), values)


# Averaging the singular values.


def _logit(singular_values: Float[Tensor, "layers"], head: float) -> float:
    return head * float((1 + singular_values).prod())


def _averaging_with_the_head() -> Statement:
    values, head = torch.tensor([0.2, 0.6], dtype=torch.float64), 2.0
    mean = (float(values.sum()) + head) / 3
    return Statement(_logit(values, head), "<=", _logit(torch.full_like(values, mean), mean), ROUNDING)


def _averaging_without_the_head(values: Float[Tensor, "layers"], head: float) -> Statement:
    before, after = _logit(values, head), _logit(values.mean().expand_as(values), head)
    return Statement(before / after, "<=", 1.0, ROUNDING)


def _averaging_at_case() -> Statement:
    return _averaging_without_the_head(torch.tensor([0.2, 0.6], dtype=torch.float64), 2.0)


def _averaging_at_random(generator: torch.Generator) -> Statement:
    values = _normal(generator, _between(generator, 1, 12)).abs()
    return _averaging_without_the_head(values, float(_normal(generator).exp()))


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="li2023-theorem-3.1",
        source="li2023",
        where="Theorem 3.1, proof, after equation (1)",
        printed="(RA3) implies the Jacobians are rank 1 and therefore h_k = U_{k,1} (∏_{i<k} (1 + S_{i,1})) U_{k,1}ᵀ "
        "h₁, ... h_k = k U_{i,1} U_{i,1}ᵀ h₁",
        case="u = (1, 0), h₁ = (1, 1), s_i = 1/i: after three blocks h₄ = (4, 1), printed (4, 0)",
        corrected="h_k = h₁ + (∏_{i<k} (1 + s_i) - 1) uuᵀ h₁, for s_i = 1/i h_k = h₁ + (k - 1) uuᵀ h₁: equally spaced "
        "on a line that passes beside the origin",
        why="I + uSuᵀ is the identity, not zero, on what is orthogonal to u: the product in (1) needs all of U",
        printed_at_case=_only_the_direction_is_left,
        corrected_at_case=_rest_at_case,
        corrected_at_random=_rest_at_random,
    ),
    Erratum(
        key="li2023-theorem-3.3-equality",
        source="li2023",
        where="Theorem 3.3, proof, lines 54-56",
        printed="the inequality becomes equality once the singular vectors of all the Jacobians align with those of Δx "
        "wᵀ and once the vector w is chosen to be proportional to Δx (so that the matrix Δx wᵀ is symmetric)",
        case="w = -Δx of length 1, so Δx wᵀ = -ΔxΔxᵀ has the singular pair (Δx, -Δx), and J₁ = -ΔxΔxᵀ/2 has it too: "
        "the logit is -0.5, the bound 1.5",
        corrected="equality holds once J_i = s_i uuᵀ with u = Δx/‖Δx‖ and w is a positive multiple of Δx (so that Δx "
        "wᵀ is positive semidefinite)",
        why="a symmetric matrix with a negative eigenvalue has different left and right singular vectors",
        printed_at_case=_attained_when_symmetric,
        corrected_at_case=_attained_at_case,
        corrected_at_random=_attained_at_random,
    ),
    Erratum(
        key="li2023-theorem-3.3-averaging",
        source="li2023",
        where="Theorem 3.3, proof, lines 66-68",
        printed="one can further increase the logits and reduce the loss by averaging all the top singular values, s_i "
        "for 1 ≤ i ≤ L + 1, and forcing them to be equal",
        case="L = 2, s₁ = 0.2, s₂ = 0.6, s₃ = 2: the logit falls from 3.84 to 3.49",
        corrected="averaging s_i for 1 ≤ i ≤ L does not lower the logit s_{L+1} ∏ (1 + s_i); s_{L+1} = ‖w‖ ‖Δx‖ stays "
        "out of it, and at the optimum ‖w‖² = s (1 + s)",
        why="the inequality of means was applied to the L factors 1 + s_i; s_{L+1} enters without the 1",
        printed_at_case=_averaging_with_the_head,
        corrected_at_case=_averaging_at_case,
        corrected_at_random=_averaging_at_random,
    ),
)
