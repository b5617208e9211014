"""Joudaki (2024), chapter 4: isometry and what normalization does to it."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.gram.isometry import gram_isometry, isometry_gain, isometry_gain_bound
from orthoscope_papers.errata import Erratum, Statement

Rows = Float[Tensor, "vectors entries"]

ROUNDING = 1e-9


def _isometry(rows: Rows) -> float:
    return float(gram_isometry(rows @ rows.mT))


def _identity(size: int) -> Rows:
    return torch.eye(size, dtype=torch.float64)


def _unit(rows: Rows) -> Rows:
    return rows / rows.norm(dim=-1, keepdim=True)


def _without_mean(rows: Rows) -> Rows:
    return rows - rows.mean(-1, keepdim=True)


def _random_rows(generator: torch.Generator) -> Rows:
    """Up to six vectors of very different lengths, in at least as many dimensions."""
    count, more = torch.randint(1, 6, (2,), generator=generator).tolist()
    rows = torch.randn(count + 1, count + more, generator=generator, dtype=torch.float64)
    return rows * torch.randn(count + 1, 1, generator=generator, dtype=torch.float64).exp()


def _bound_holds(before: Rows, after: Rows) -> Statement:
    """(4.3): the isometry after is at least that before times the bound for the lengths before."""
    bound = float(isometry_gain_bound(before.norm(dim=-1)))
    return Statement(_isometry(before) * bound, "<=", _isometry(after), ROUNDING)


# Lemma 4.2: matrices of isometry 1.


def _only_the_identity() -> Statement:
    assert _isometry(2**0.5 * _identity(3)) > 1 - ROUNDING
    return Statement(float((2 * _identity(3) - _identity(3)).norm()), "=", 0.0)


def _multiple_at_case() -> Statement:
    return Statement(float(gram_isometry(2 * _identity(3))), "=", 1.0, ROUNDING)


def _only_multiples_at_random(generator: torch.Generator) -> Statement:
    """Another matrix is below 1 by its variance of eigenvalues, here from traces (Cartwright and Field, 1978)."""
    rows = _random_rows(generator)
    gram = rows @ rows.mT
    size, mean, largest = len(gram), float(gram.trace()) / len(gram), float(gram.norm())
    variance = float(gram.square().sum()) / size - mean**2
    return Statement(float(gram_isometry(gram)), "<=", 1 - variance / (2 * largest * mean), ROUNDING)


# Proof of Theorem 4.3, (4.4)-(4.7): the ratio of isometries.

LENGTHS = torch.tensor([1.0, 3.0], dtype=torch.float64)


def _ratio(rows: Rows) -> float:
    return _isometry(_unit(rows)) / _isometry(rows)


def _ratio_by_variance() -> Statement:
    return Statement(_ratio(torch.diag(LENGTHS)), "=", float(isometry_gain_bound(LENGTHS)), ROUNDING)


def _ratio_by_geometric_mean(rows: Rows) -> Statement:
    expected = float(isometry_gain(rows.norm(dim=-1)))
    return Statement(_ratio(rows) / expected, "=", 1.0, ROUNDING)


def _ratio_at_case() -> Statement:
    return _ratio_by_geometric_mean(torch.diag(LENGTHS))


def _ratio_at_random(generator: torch.Generator) -> Statement:
    return _ratio_by_geometric_mean(_random_rows(generator))


# Corollary 4.4: layer normalization centers.


def _layer_norm_printed() -> Statement:
    return _bound_holds(_identity(2), _unit(_without_mean(_identity(2))))


def _layer_norm_corrected(rows: Rows) -> Statement:
    return _bound_holds(_without_mean(rows), _unit(_without_mean(rows)))


def _layer_norm_at_case() -> Statement:
    return _layer_norm_corrected(_identity(2))


def _layer_norm_at_random(generator: torch.Generator) -> Statement:
    return _layer_norm_corrected(_random_rows(generator))


# Corollary 4.5: the mean of d lengths, and batch normalization that centers.


def _mean_over_samples() -> Statement:
    rows = torch.eye(2, 4, dtype=torch.float64)
    lengths = rows.norm(dim=-1)
    mean = float(lengths.sum()) / 4
    factor = 1 + float((lengths - mean).square().mean()) / mean**2
    return Statement(_isometry(rows) * factor, "<=", _isometry(_unit(rows)), ROUNDING)


def _batch_norm_centered() -> Statement:
    return _bound_holds(_identity(2), _unit(_without_mean(_identity(2))))


def _batch_norm_corrected(rows: Rows) -> Statement:
    return _bound_holds(rows, _unit(rows))


def _wide_at_case() -> Statement:
    return _batch_norm_corrected(torch.eye(2, 4, dtype=torch.float64))


def _square_at_case() -> Statement:
    return _batch_norm_corrected(_identity(2))


def _batch_norm_at_random(generator: torch.Generator) -> Statement:
    return _batch_norm_corrected(_random_rows(generator))


def _centered_batch_norm_at_random(generator: torch.Generator) -> Statement:
    """Of rows of mean 0, with the batch norm of section 3.2."""
    rows = _without_mean(_random_rows(generator))
    return _bound_holds(rows, (rows - rows.mean(-1, keepdim=True)) / rows.std(-1, correction=0, keepdim=True))


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="joudaki2024-lemma-4.2",
        source="joudaki2024",
        where="Lemma 4.2, property 3",
        printed="it takes its maximum value if and only if M is identity I(M) = 1 ⟺ M = I_n",
        case="M = 2 I_3: I(M) = 1, and M is not the identity",
        corrected="I(M) = 1 ⟺ M = c I_n with c > 0; otherwise I(M) ≤ 1 - v/(2 ‖M‖_F m), m and v > 0 the mean and "
        "variance of the eigenvalues",
        why="Isometry is scale-invariant, by property 1 of the same lemma: equal eigenvalues need not be 1.",
        printed_at_case=_only_the_identity,
        corrected_at_case=_multiple_at_case,
        corrected_at_random=_only_multiples_at_random,
    ),
    Erratum(
        key="joudaki2024-equation-4.7",
        source="joudaki2024",
        where="proof of Theorem 4.3, (4.4)-(4.7)",
        printed="I(G̃)/I(G) = 1 + (1/n) Σ_i (a_i - ā)²/ā²",
        case="two orthogonal vectors of lengths 1 and 3: the ratio is 5/3, the right side 5/4",
        corrected="I(G̃)/I(G) = mean(a²)/GM(a)² with GM the geometric mean, which is at least the right side",
        why="The factor ā²/GM(a)² ≥ 1 of (4.6) is dropped without turning the equality into an inequality.",
        printed_at_case=_ratio_by_variance,
        corrected_at_case=_ratio_at_case,
        corrected_at_random=_ratio_at_random,
        random_cases=300,
    ),
    Erratum(
        key="joudaki2024-corollary-4.4",
        source="joudaki2024",
        where="Corollary 4.4",
        printed="I(G̃) ≥ I(G)(1 + (1/n) Σ_i (a_i - ā)²/ā²) for x̃_i = LN(x_i), a_i = ‖x_i‖",
        case="x = (1, 0), (0, 1): LN gives (1, -1), (-1, 1), which are dependent, so 0 ≥ 1",
        corrected="it holds for RMS normalization, and for LN with G and a_i of the vectors about their own means",
        why="Layer normalization projects on a sphere only after it has taken out the mean, which can lower isometry.",
        printed_at_case=_layer_norm_printed,
        corrected_at_case=_layer_norm_at_case,
        corrected_at_random=_layer_norm_at_random,
        random_cases=300,
    ),
    Erratum(
        key="joudaki2024-corollary-4.5",
        source="joudaki2024",
        where="Corollary 4.5, the definition of ā",
        printed="I(C̃) ≥ I(C)(1 + (1/d) Σ_i (a_i - ā)²/ā²), a_i = ‖X_i·‖, ā = (1/n) Σ_{i=1}^d a_i",
        case="d = 2 orthonormal rows of n = 4 entries, not centered: ā = 1/2, so the right side is 2, and I(C̃) = 1",
        corrected="ā = (1/d) Σ_{i=1}^d a_i, for BN without centering and d ≤ n (otherwise both sides are 0)",
        why="The sum over d units is divided by the number of samples.",
        printed_at_case=_mean_over_samples,
        corrected_at_case=_wide_at_case,
        corrected_at_random=_batch_norm_at_random,
        random_cases=300,
    ),
    Erratum(
        key="joudaki2024-corollary-4.5-centering",
        source="joudaki2024",
        where="Corollary 4.5, with BN as defined in section 3.2",
        printed="I(C̃) ≥ I(C)(1 + …) for X̃ = BN(X), BN(x) = (x - mean(x))/√Var(x)",
        case="X = I_2: BN gives the rows (1, -1) and (-1, 1), which are dependent, so 0 ≥ 1",
        corrected="it holds for BN(x) = x/‖x‖, without centering, or for rows of mean 0",
        why="Centering is no normalization of lengths, and lowers the isometry here from 1 to 0.",
        printed_at_case=_batch_norm_centered,
        corrected_at_case=_square_at_case,
        corrected_at_random=_centered_batch_norm_at_random,
        random_cases=300,
    ),
)
