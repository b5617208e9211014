"""Daneshmand, Joudaki & Bach (2021): what is said about the width of the network."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import nonlinearity
from orthoscope.theory.chain.batch_norm import stationary_gap_squared
from orthoscope.theory.chain.bounds import wasserstein_bound
from orthoscope_papers.daneshmand2021.errata.batch_norm_chain import ERRORS
from orthoscope_papers.errata import Erratum, Statement

# The floor of the gap and of the distance.


def _deep_squared_gaps(samples: int, width: int, generator: torch.Generator) -> Float[Tensor, "chains"]:
    """By chain, of the tenth layer: a layer keeps (n/(n+2))² of what is not yet there, so 0.1 % of it for 5 samples."""
    identity = torch.eye(samples, dtype=torch.float64) / samples
    chains = 2**14 // width
    gram = identity.expand(chains, samples, samples)
    for _ in range(10):
        noise = torch.randn(chains, width, samples, generator=generator, dtype=torch.float64)
        rows = noise @ torch.linalg.cholesky(gram).mT
        rows = rows / rows.norm(dim=-1, keepdim=True)
        gram = rows.mT @ rows / width
    return (gram - identity).square().sum((-2, -1))


def _floor_printed() -> Statement:
    generator = torch.Generator().manual_seed(0)
    narrow, wide = (_deep_squared_gaps(4, width, generator).sqrt() for width in (16, 256))
    error = float(wide.std()) / len(wide) ** 0.5 + float(narrow.std()) / 16 / len(narrow) ** 0.5
    return Statement(float(wide.mean()), "=", float(narrow.mean()) / 16, ERRORS * error)


def _floor(samples: int, width: int, generator: torch.Generator) -> Statement:
    squares = _deep_squared_gaps(samples, width, generator)
    error, predicted = float(squares.std()) / len(squares) ** 0.5, stationary_gap_squared(samples, width)
    # The next order of the closed form is a relative (n-2)/(2d).
    return Statement(float(squares.mean()), "=", predicted, ERRORS * error + predicted * samples / width)


def _floor_at_case() -> Statement:
    return _floor(4, 256, torch.Generator().manual_seed(0))


def _floor_at_random(generator: torch.Generator) -> Statement:
    samples = int(torch.randint(2, 6, (), generator=generator))
    return _floor(samples, int(torch.randint(64, 257, (), generator=generator)), generator)


def _proven_square(samples: int, width: int, alpha: float, depth: int) -> float:
    """The square of the distance as the proofs bound it, layer by layer: Theorem 5, then Lemmas 4 and 2."""
    weakest = 1 / samples
    for _ in range(depth - 1):
        weakest = (1 - 2 * alpha / 3) * weakest + width**-0.5
    return 2 * samples * (2 * samples * weakest)


def _radius_by(exponent: float, samples: int, width: int, factor: int, alpha: float) -> Statement:
    """The radius at `factor` times the width as the proofs have it, against that of the corollary and a power law."""
    enough = math.ceil(60 / alpha)
    radius = math.sqrt(_proven_square(samples, factor * width, alpha, enough))
    expected = wasserstein_bound(samples, width, enough, alpha) * factor**exponent
    return Statement(radius / expected, "=", 1.0, 1e-9)


def _radius_printed() -> Statement:
    return _radius_by(-1 / 2, 4, 100, 16, 0.2)


def _radius_corrected() -> Statement:
    return _radius_by(-1 / 4, 4, 100, 16, 0.2)


def _radius_at_random(generator: torch.Generator) -> Statement:
    samples, factor = (int(torch.randint(2, high, (), generator=generator)) for high in (10, 100))
    part = 0.2 + 0.8 * float(torch.rand((), generator=generator))
    return _radius_by(-1 / 4, samples, 1000, factor, part / samples)


# The distance in the introduction, whose O hides constants: twelve is enough for what the proofs give, α for 2α/3.

ORDER_CONSTANT = 12.0


def _order(power: int, samples: int, width: int, alpha: float, depth: int) -> Statement:
    rate = 2 * alpha / 3
    order = (1 - rate) ** depth * samples + samples**power / (rate * math.sqrt(width))
    return Statement(_proven_square(samples, width, alpha, depth), "<=", ORDER_CONSTANT * order)


def _order_printed() -> Statement:
    return _order(1, 100, 100**4, 1 / 100, 2000)


def _order_corrected() -> Statement:
    return _order(2, 100, 100**4, 1 / 100, 2000)


def _order_at_random(generator: torch.Generator) -> Statement:
    samples, depth = (int(torch.randint(2, high, (), generator=generator)) for high in (100, 300))
    width = samples * 4 ** int(torch.randint(0, 9, (), generator=generator))
    return _order(2, samples, width, float(torch.rand((), generator=generator)) / samples, depth)


# The level of the plots of Figure 6, which has a logarithmic axis.


def _deep_deviations(
    activation: str, samples: int, width: int, chains: int, generator: torch.Generator
) -> Float[Tensor, "chains"]:
    """L(Q) over the width, by chain, averaged over 5 layers after 10 others; E[QᵀQ] is the mean over all of them."""
    phi = nonlinearity(activation)
    hidden = torch.randn(chains, width, samples, generator=generator, dtype=torch.float64)
    grams = []
    for _ in range(15):
        # The rows of WF(Q) are independent, of covariance F(Q)ᵀF(Q) up to a factor that BN takes away.
        outputs = phi(hidden)
        root = torch.linalg.cholesky(outputs.mT @ outputs)
        noise = torch.randn(chains, width, samples, generator=generator, dtype=torch.float64)
        hidden = noise @ root.mT
        hidden = hidden / hidden.norm(dim=-1, keepdim=True)
        grams.append(hidden.mT @ hidden / width)
    late = torch.stack(grams[10:])
    return (late - late.mean((0, 1))).square().sum((-2, -1)).sqrt().mean(0)


def _levels(samples: int, width: int, chains: int, generator: torch.Generator) -> tuple[float, float, float]:
    """Mean deviation of sigmoid and of tanh networks, and the standard error of their difference."""
    low, high = (_deep_deviations(name, samples, width, chains, generator) for name in ("sigmoid", "tanh"))
    error = math.sqrt(float(low.var()) / len(low) + float(high.var()) / len(high))
    return float(low.mean()), float(high.mean()), error


def _figure_printed() -> Statement:
    low, high, error = _levels(4, 32, 150, torch.Generator().manual_seed(0))
    return Statement(low, "=", high, ERRORS * error)


def _figure_at_case() -> Statement:
    return _half_as_much(4, 32, 150, torch.Generator().manual_seed(0))


def _half_as_much(samples: int, width: int, chains: int, generator: torch.Generator) -> Statement:
    low, high, _ = _levels(samples, width, chains, generator)
    return Statement(low, "<=", high / 2)


def _figure_at_random(generator: torch.Generator) -> Statement:
    samples = int(torch.randint(3, 7, (), generator=generator))
    return _half_as_much(samples, int(torch.randint(24, 65, (), generator=generator)), 20, generator)


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="daneshmand2021-abstract",
        source="daneshmand2021",
        where="Abstract and contribution (1), with V for the deviation, as in section 1; also joudaki2024, chapter 2",
        printed="the deviation of the representations from orthogonality rapidly decays with depth up to a term "
        "inversely proportional to the network width",
        case="4 samples, widths 16 and 256, deep layers: the mean of V falls by 4, not by 16",
        corrected="up to a term inversely proportional to the square root of the width, as in Theorem 1; at depth "
        "E[V²] = (1 - 1/n)(n+2)²/(4(n+1)d) to leading order in 1/d",
        why="each layer's Gram matrix is a mean of d independent rows, so it scatters by d^(-1/2); V² is inversely "
        "proportional to d",
        printed_at_case=_floor_printed,
        corrected_at_case=_floor_at_case,
        corrected_at_random=_floor_at_random,
        random_cases=30,
    ),
    Erratum(
        key="daneshmand2021-introduction",
        source="daneshmand2021",
        where="section 1, second display (joudaki2024, chapter 2, has it right)",
        printed="we prove the following bound holds: Wasserstein_2(representations, Gaussian)² = O((1 - α)^depth "
        "(batch size) + batch size/(α√width))",
        case="100 samples, width 10^8, α = 1/100 and 2000 layers: the bound proven is 600, the printed order 1.5; no "
        "constant helps, as their ratio grows with the batch",
        corrected="what (5) proves is O((1 - α)^depth (batch size) + (batch size)²/(α√width))",
        why="a square is missing: Lemma 4 and Lemma 2 bring a factor 2n each",
        printed_at_case=_order_printed,
        corrected_at_case=_order_corrected,
        corrected_at_random=_order_at_random,
    ),
    Erratum(
        key="daneshmand2021-corollary-3-radius",
        source="daneshmand2021",
        where="after Corollary 3, in whose words it is said; also joudaki2024, after Corollary 2.3",
        printed="In other words, ... The radius of the Wasserstein 2 ball is at most O(1/√width)",
        case="4 samples, α = 0.2: the radius √(6n²/(α√d)) of the corollary, at widths 100 and 1600",
        corrected="the radius of the corollary's ball is O(width^(-1/4)), as Table 1 has it (what the network does is "
        "better: by W₂² ≤ n E[V²] before the last step of the proof of Lemma 2, O(width^(-1/2)))",
        why="the corollary bounds the square of the distance",
        printed_at_case=_radius_printed,
        corrected_at_case=_radius_corrected,
        corrected_at_random=_radius_at_random,
    ),
    Erratum(
        key="daneshmand2021-figure-6",
        source="daneshmand2021",
        where="Figure 6, caption",
        printed="The difference between plots for the activation functions is negligible, so not visible",
        case="sigmoid and tanh, 4 samples, width 32, deep layers: L(Q)/d is 0.06 and 0.20, 1.2 apart on the axis",
        corrected="the plots differ: L(Q) of a sigmoid network is less than half of that of a tanh network",
        why="sigmoid has a mean, so its samples become nearly parallel, and then scatter less; the authors' notebook "
        "plots one activation under every label",
        printed_at_case=_figure_printed,
        corrected_at_case=_figure_at_case,
        corrected_at_random=_figure_at_random,
        random_cases=50,
    ),
)
