"""Joudaki (2024), appendices C.3 to C.5: gradients through batch norm with Haar weights, ranks of batches of images."""

from math import exp

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.functional import jacobian

from orthoscope.linalg import haar
from orthoscope.theory.gram.gradient_growth import gradient_growth
from orthoscope.theory.haar.batch_norm import gap_decay_depth, near_isometry, second_phase_bound
from orthoscope_papers.errata import Erratum, Statement
from orthoscope_papers.joudaki2024.errata.haar import batch_norm, isometry_gap, two_units

Matrix = Float[Tensor, "units samples"]

ROUNDING = 1e-9


def _uniform(generator: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator, dtype=torch.float64))


def _between(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


# Lemma C.13.


def _log_jacobian(hidden: Matrix) -> float:
    derivative = jacobian(batch_norm, hidden)
    return float(torch.linalg.matrix_norm(derivative.flatten(0, 1).flatten(1, 2), ord=2).log())


def _any_trace() -> Statement:
    hidden = torch.eye(2, dtype=torch.float64) / 100
    return Statement(_log_jacobian(hidden), "<=", 2 * float(isometry_gap(hidden)) + 1, ROUNDING)


def _trace_counted(hidden: Matrix) -> Statement:
    log_scale = float((hidden.square().sum() / len(hidden)).log()) / 2
    bound = len(hidden) * float(isometry_gap(hidden)) + 1
    return Statement(_log_jacobian(hidden) + log_scale, "<=", bound, ROUNDING)


def _trace_at_case() -> Statement:
    return _trace_counted(torch.eye(2, dtype=torch.float64) / 100)


def _trace_at_random(generator: torch.Generator) -> Statement:
    width, scale = _between(generator, 2, 4), exp(_uniform(generator, -9.0, 9.0))
    return _trace_counted(scale * torch.randn(width, width, generator=generator, dtype=torch.float64))


# Equation (C.111).


def _geometric_sum(width: int, gap: float, depth: int, first: int) -> Statement:
    """√(dψ) Σ_k (1 − 1/(32d⁴))^k, k from `first` to L, against (C.111)."""
    initial = torch.tensor(gap, dtype=torch.float64)
    factors = (1 - 1 / (32 * width**4)) ** torch.arange(first, depth + 1, dtype=torch.float64)
    left = (width * initial).sqrt() * factors.sum()
    return Statement(float(left), "<=", float(second_phase_bound(width, initial, depth)), ROUNDING)


def _sum_from_zero() -> Statement:
    return _geometric_sum(2, 0.01, 1, first=0)


def _sum_at_case() -> Statement:
    return _geometric_sum(2, 0.01, 1, first=1)


def _sum_at_random(generator: torch.Generator) -> Statement:
    width, depth = _between(generator, 2, 10), _between(generator, 1, 3000)
    return _geometric_sum(width, _uniform(generator, 0.0, 1.0), depth, first=1)


# Equation (C.113).


def _tail(gap: float, layers: int, exponent: int, generator: torch.Generator) -> Statement:
    """Pr{S ≥ ℓ} from two units with the gap ψ₀, over 400 chains, against 16dψ₀ e^{−exponent/k}."""
    chains = 400
    hidden = two_units((1 - exp(-2 * gap)) ** 0.5).expand(chains, 2, 2)
    for _ in range(layers - 1):
        hidden = batch_norm(haar(2, 2, chains, generator=generator, dtype=torch.float64) @ hidden)
    above = (isometry_gap(hidden) > near_isometry(2)).double()
    k = float(gap_decay_depth(2, torch.tensor(gap, dtype=torch.float64)))
    tolerance = 4 * float(above.std()) / chains**0.5
    return Statement(float(above.mean()), "<=", 16 * 2 * gap * exp(-exponent / k), tolerance)


def _tail_as_printed() -> Statement:
    return _tail(1.01 / 32, 1, 1, torch.Generator().manual_seed(0))


def _tail_at_case() -> Statement:
    return _tail(1.01 / 32, 1, 0, torch.Generator().manual_seed(0))


def _tail_at_random(generator: torch.Generator) -> Statement:
    layers = _between(generator, 1, 6)
    return _tail(_uniform(generator, 1.01, 3.0) / 32, layers, layers - 1, generator)


# Corollary C.19.


def _on_the_sphere(vector: Float[Tensor, "d"]) -> Float[Tensor, "d"]:
    return vector / vector.norm()


def _multiplicity(vector: Float[Tensor, "d"], expected: int) -> Statement:
    """How many eigenvalues of the Jacobian of x/‖x‖ are 1/‖x‖."""
    eigenvalues = torch.linalg.eigvalsh(jacobian(_on_the_sphere, vector))
    return Statement(float(((eigenvalues * vector.norm() - 1).abs() < ROUNDING).sum()), "=", float(expected))


def _multiplicity_as_printed() -> Statement:
    return _multiplicity(torch.tensor([1.0, 2.0, 2.0], dtype=torch.float64), 3**2 - 1)


def _multiplicity_at_case() -> Statement:
    return _multiplicity(torch.tensor([1.0, 2.0, 2.0], dtype=torch.float64), 3 - 1)


def _multiplicity_at_random(generator: torch.Generator) -> Statement:
    d = _between(generator, 1, 8)
    return _multiplicity(torch.randn(d, generator=generator, dtype=torch.float64), d - 1)


# Equation (C.155).


def _explosion(samples: int, width: int, nets: int, sign: int, generator: torch.Generator) -> Statement:
    """`sign` times (log ‖∇W_1‖ - log ‖∇W_11‖)/10 of Gaussian networks with batch norm, against what theory predicts."""
    weights = torch.randn(12, nets, width, width, generator=generator, dtype=torch.float64)
    hidden, loss = torch.randn(2, nets, width, samples, generator=generator, dtype=torch.float64)
    layers = [weight.requires_grad_() for weight in weights]
    with torch.enable_grad():
        for weight in layers:
            hidden = batch_norm(weight @ hidden)
        gradients = torch.autograd.grad((loss * hidden).sum(), [layers[0], layers[10]])
    near, far = (gradient.norm(dim=(-2, -1)).log() for gradient in gradients)
    rates = sign * (near - far) / 10
    error = float(rates.std()) / nets**0.5
    # The prediction is for infinite width: at 32 and 64 units the rate is less by about 1.2/width.
    return Statement(float(rates.mean()), "=", gradient_growth(samples, centered=False), 5 * error + 2 / width)


def _rate_as_printed() -> Statement:
    return _explosion(4, 100, 20, -1, torch.Generator().manual_seed(0))


def _rate_at_case() -> Statement:
    return _explosion(4, 100, 20, 1, torch.Generator().manual_seed(0))


def _rate_at_random(generator: torch.Generator) -> Statement:
    return _explosion(_between(generator, 4, 6), _between(generator, 40, 70), 10, 1, generator)


# Table C.1: samples alike but for ε of their squared length; their Gram matrix 11ᵀ + εI has full rank.

DIFFERENCE = 1e-4
FEW, MANY = 16, 64


def _rank(samples: int, difference: float, dtype: torch.dtype) -> float:
    """As the table counts: `matrix_rank` of the Gram matrix, with the defaults of PyTorch."""
    gram = 1 + difference * torch.eye(samples, dtype=dtype)
    return float(torch.linalg.matrix_rank(gram))


def _rank_falls() -> Statement:
    return Statement(_rank(FEW, DIFFERENCE, torch.float32), "<=", _rank(MANY, DIFFERENCE, torch.float32))


def _full_rank_at_case() -> Statement:
    return Statement(_rank(MANY, DIFFERENCE, torch.float64), "=", float(MANY))


def _counted_rank_at_random(generator: torch.Generator) -> Statement:
    """The eigenvalues are n + ε once and ε: above the tolerance n eps (n + ε), or not, by a factor 2 at least."""
    samples = int(torch.randint(2, 80, (), generator=generator))
    single = bool(torch.randint(2, (), generator=generator))
    dtype = torch.float32 if single else torch.float64
    tolerance = samples**2 * torch.finfo(torch.float32).eps
    visible = bool(torch.randint(2, (), generator=generator))
    factor = 2 + 8 * float(torch.rand((), generator=generator))
    difference = tolerance * (factor if visible else 1 / factor)
    return Statement(_rank(samples, difference, dtype), "=", float(samples if visible or not single else 1))


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="joudaki2024-lemma-c.13",
        source="joudaki2024",
        where="Lemma C.13, equation (C.84)",
        printed="If X ∈ ℝ^{d×d} is the input to a BN layer, log ‖J_BN(X)‖_op ≤ dψ(X) + 1",
        case="X = I/100, d = 2: the Jacobian has norm 100 and the gap is 0",
        corrected="log ‖J_BN(X)‖_op + ½ log(tr XXᵀ/d) ≤ dψ(X) + 1; the printed bound needs tr XXᵀ = d",
        why="The gap ignores scale and the Jacobian does not; WX with X = BN(·) has the right trace.",
        printed_at_case=_any_trace,
        corrected_at_case=_trace_at_case,
        corrected_at_random=_trace_at_random,
        random_cases=200,
    ),
    Erratum(
        key="joudaki2024-equation-c.111",
        source="joudaki2024",
        where="proof of Lemma C.15, equations (C.110) and (C.111)",
        printed="√(dψ(X_S)) Σ_{k=0}^L (1 − 1/(32d⁴))^k ≤ 32 d^4.5 ψ(X_0)^0.5 (1 − e^{−L/(32d⁴)})",
        case="d = 2, ψ(X_S) = ψ(X_0) = 0.01, L = 1",
        corrected="√(dψ(X_S)) Σ_{k=1}^L (1 − 1/(32d⁴))^k ≤ 32 d^4.5 ψ(X_0)^0.5 (1 − e^{−L/(32d⁴)})",
        why="(1−a)^{L+1} ≤ e^{−aL} is used the wrong way round; the lemma's sum starts at S+1, so the lemma holds.",
        printed_at_case=_sum_from_zero,
        corrected_at_case=_sum_at_case,
        corrected_at_random=_sum_at_random,
    ),
    Erratum(
        key="joudaki2024-equation-c.113",
        source="joudaki2024",
        where="proof of Lemma C.14, equation (C.113)",
        printed="Pr{S ≥ ℓ} ≤ exp(−ℓ/max(2d², 32d³ψ(X⁰))) 16dψ(X⁰)",
        case="d = 2, X⁰ = BN(·) with ψ(X⁰) = 1.01/(16d), ℓ = 1: S ≥ 1 for certain",
        corrected="Pr{S ≥ ℓ} ≤ exp(−(ℓ−1)/max(2d², 32d³ψ(X⁰))) 16dψ(X⁰), for X⁰ = BN(·)",
        why="S ≥ ℓ says that the gap is large at layer ℓ−1, not at layer ℓ; the lemma holds all the same.",
        printed_at_case=_tail_as_printed,
        corrected_at_case=_tail_at_case,
        corrected_at_random=_tail_at_random,
        random_cases=100,
    ),
    Erratum(
        key="joudaki2024-corollary-c.19",
        source="joudaki2024",
        where="Corollary C.19, and I_{d²} in Lemma C.18, equation (C.131)",
        printed="The J_f(x) has the eigenvalue 1/‖x‖ with multiplicity d² − 1 and 0 with multiplicity 1.",
        case="d = 3, x = (1, 2, 2)",
        corrected="J_f(x) = I_d/‖x‖ − xxᵀ/‖x‖³ has the eigenvalue 1/‖x‖ with multiplicity d − 1 and 0 once",
        why="f maps ℝ^d to ℝ^d, so its Jacobian is d × d; d² × d² is that of batch norm on the whole matrix.",
        printed_at_case=_multiplicity_as_printed,
        corrected_at_case=_multiplicity_at_case,
        corrected_at_random=_multiplicity_at_random,
        random_cases=300,
    ),
    Erratum(
        key="joudaki2024-equation-c.155",
        source="joudaki2024",
        where="section C.5, equation (C.155)",
        printed="We define the rate of explosion ... at layer ℓ as the slope of the log norm of the gradients: R(ℓ, "
        "α_ℓ) = (log ‖∇W_ℓ L‖ − log ‖∇W_{ℓ−10} L‖)/10",
        case="Gaussian weights, batch norm of 4 samples: gradients grow by the factor √(3/2) a layer on their way back",
        corrected="R(ℓ, α_ℓ) = (log ‖∇W_{ℓ−10} L‖ − log ‖∇W_ℓ L‖)/10",
        why="Gradients explode toward the input, where ℓ is small: as printed the rate of an explosion is negative.",
        printed_at_case=_rate_as_printed,
        corrected_at_case=_rate_at_case,
        corrected_at_random=_rate_at_random,
        random_cases=30,
    ),
    Erratum(
        key="joudaki2024-table-c.1",
        source="joudaki2024",
        where="Table C.1, columns n = 256 and n = 512",
        printed="Average rank of Gram matrix of input batches of size n ... CIFAR10 221.06 [n = 256] 203.70 [n = 512]",
        case="Gram matrices 11ᵀ + 10^(-4) I of 16 and of 64 samples, ranked as the table is, by matrix_rank in "
        "float32: 16 and 1",
        corrected="the rank of a batch is at least that of a part of it, so mean ranks do not fall with n; the Gram "
        "matrices above have rank n, as float64 finds, and matrix_rank in float32 counts the eigenvalues above 2^(-23) "
        "n λ_max",
        why="λ_max of samples with a mean grows as n, so the tolerance grows as n², and passes eigenvalues that are "
        "not 0",
        printed_at_case=_rank_falls,
        corrected_at_case=_full_rank_at_case,
        corrected_at_random=_counted_rank_at_random,
    ),
)
