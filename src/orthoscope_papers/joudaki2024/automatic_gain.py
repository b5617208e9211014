r"""Joudaki (2024), section C.5: the gain exponent found by measurement, and the gradients it leaves at depth 1000.

Orthogonal weights, standard batch norm, width and batch 100, tanh or sin. `simulated_rates` measures the explosion
rate of random networks at a few gains, fits $R_0 + c_1\alpha^{c_2}$ and takes $\alpha_\ell = \ell^{-k}$, $k c_2 > 1$ by
a margin. Then networks of up to 1000 layers, shaped by `shape_activations_`, read CIFAR-10: with gain 1, a third of
$k$, whose sum of rates does not converge, and with $k$. $W_1$ is the first square weight, as in Figure 6.5. The thesis
fits the same law and takes 0.4 for both activations; its (6.11) does not divide by the gain, so that the last gain
multiplies what the head reads and, about, the gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy

from orthoscope.activations import GAINS, GainLaw, fit_gain_law, gain_schedule, shape_activations_
from orthoscope.chains import Chain
from orthoscope.metrics.gradients import log_norm
from orthoscope.models import MLP
from orthoscope.prescriptions.gains import LINEAR, simulated_rates
from orthoscope_papers.evidence import Evidence, Verdict, interval, student_interval, wilson
from orthoscope_papers.joudaki2024.first_gradients import GradientConfig
from orthoscope_papers.joudaki2024.shaped_network import image_batch
from orthoscope_papers.panels import Math, Panel, Series, around, averaged

CLAIM = (
    "The gain exponent found automatically, for tanh and for sin, bounds gradients: log ‖∇W₁‖ at depth 1000 is within "
    "2 of its value at depth 10 in the mean, and for most networks: a few leap."
)
KIND = "simulation"
DATA = ("cifar10",)

SHALLOW, WITHIN = 10, 2.0
SHARES = (0.0, 1 / 3, 1.0)  # of the exponent that was found
MARGIN = 0.2  # by which the exponent times the lowest power exceeds 1
PRINTED_POWERS, PRINTED_EXPONENT, DIGITS = {"tanh": 2.4, "sin": 3.1}, 0.4, 0.05  # printed with two digits


@dataclass(frozen=True)
class Config(GradientConfig):
    activations: tuple[str, ...] = ("tanh", "sin")
    gains: tuple[float, ...] = GAINS
    measured_depth: int = 120  # of the networks whose rates are measured
    depths: tuple[int, ...] = (10, 100, 1000)
    seeds: tuple[int, ...] = tuple(range(10))


QUICK = Config(data="digits", width=32, batch=32, measured_depth=80, depths=(10, 200), seeds=tuple(range(6)))
FULL = Config(measured_depth=500, depths=(10, 30, 100, 300, 1000))


class Row(NamedTuple):
    activation: str
    measure: str  # "rate" of a network with one gain, or "log-gradient" of one with the gain ℓ^(-exponent)
    share: float  # of the exponent that was found; 0 for a rate
    exponent: float
    gain: float  # 0 for a log-gradient
    depth: int
    seed: int
    value: float


def cells(config: Config) -> list[Config]:
    """One activation each."""
    return [replace(config, activations=(name,)) for name in config.activations]


def run(config: Config) -> list[Row]:
    """Rates first, then the gradients of networks with the exponent that they give."""
    rows = []
    for name in config.activations:
        rates = _rate_rows(name, config)
        found = fitted(rates, name).exponent(MARGIN)
        rows += rates
        for share, depth, seed in product(SHARES, config.depths, config.seeds):
            value = log_gradient(name, share * found, depth, seed, config)
            rows.append(Row(name, "log-gradient", share, share * found, 0.0, depth, seed, value))
    return rows


def log_gradient(activation: str, exponent: float, depth: int, seed: int, config: Config) -> float:
    r"""$\log\|\nabla W_1\|_F$ of one network, in float64, with cross-entropy on images of its own."""
    generator = torch.Generator().manual_seed(seed)
    images, labels = image_batch(config.data, config.batch, generator)
    pixels = images.shape[1]
    network = MLP(
        depth=depth, width=config.width, in_features=pixels, activation=activation, norm="batch", init="orthogonal",
        generator=generator,
    ).double()  # fmt: skip
    gains = gain_schedule(depth, exponent)
    shape_activations_(network, {f"layers.{index}.activation": gain for index, gain in enumerate(gains)})
    loss = cross_entropy(network(images.double()), labels)
    (gradient,) = torch.autograd.grad(loss, [network.get_parameter("layers.1.linear.weight")])
    return float(log_norm(gradient))


def _rate_rows(name: str, config: Config) -> list[Row]:
    chain, gains = Chain(config.width, init="orthogonal", activation=name, norm="batch"), (LINEAR, *config.gains)
    rates = simulated_rates(
        chain, gains, samples=config.batch, depth=config.measured_depth, seeds=config.seeds
    ).tolist()
    return [
        Row(name, "rate", 0.0, 0.0, gain, config.measured_depth, seed, value)
        for seed, values in zip(config.seeds, rates, strict=True)
        for gain, value in zip(gains, values, strict=True)
    ]


def fitted(rows: Sequence[Row], activation: str) -> GainLaw:
    """The law of the rates among the rows."""
    curve = rates(rows, activation)
    linear = interval(curve.pop(LINEAR))[0]
    return fit_gain_law(list(curve), torch.tensor(list(curve.values()), dtype=torch.float64).T, linear)


def rates(rows: Sequence[Row], activation: str) -> dict[float, list[float]]:
    """Gain to the rates of all seeds."""
    own = [row for row in rows if (row.activation, row.measure) == (activation, "rate")]
    return {gain: [row.value for row in own if row.gain == gain] for gain in sorted({row.gain for row in own})}


def gradients(rows: Sequence[Row], activation: str, share: float) -> dict[int, list[float]]:
    """Depth to the log-gradients of all seeds."""
    own = [row for row in rows if (row.activation, row.measure, row.share) == (activation, "log-gradient", share)]
    return {depth: [row.value for row in own if row.depth == depth] for depth in sorted({row.depth for row in own})}


def changes(rows: Sequence[Row], activation: str, share: float) -> list[float]:
    """The log-gradient of the deepest network minus that of depth 10, seed by seed."""
    curve = gradients(rows, activation, share)
    return [deep - shallow for deep, shallow in zip(curve[max(curve)], curve[SHALLOW], strict=True)]


def check(rows: list[Row]) -> dict[str, bool]:
    """Bounded with the exponent that was found, neither without gains nor with a third of it."""
    names, deepest = names_of(rows), max(row.depth for row in rows)
    exponents = {name: {row.exponent for row in rows if (row.activation, row.share) == (name, 1.0)} for name in names}
    # Seed by seed: both networks have the same weights and images.
    left = {
        name: [more - less for more, less in zip(*(changes(rows, name, share) for share in SHARES[1:]), strict=True)]
        for name in names
    }
    return {
        f"log ‖∇W₁‖ at depth {deepest} is within 2 of its depth-10 value: the mean, its interval included": all(
            mean_is(changes(rows, name, SHARES[-1]), within=True) for name in names
        ),
        "and for most networks: the interval of their share is above one half": all(
            share_within(changes(rows, name, SHARES[-1]))[1] > 0.5 for name in names
        ),
        "at gain 1 it is not, for any seed": all(
            change > WITHIN for name in names for change in changes(rows, name, SHARES[0])
        ),
        "with a third of the exponent it grows more, by at least 3 standard errors": all(
            interval(differences, 3.0)[1] > 0 for differences in left.values()
        ),
        "the exponent is that of the measured rates, and times the lowest power that they allow it is above 1": all(
            len(exponents[name]) == 1
            and abs(min(exponents[name]) - fitted(rows, name).exponent(MARGIN)) < 1e-9
            and min(exponents[name]) * fitted(rows, name).power_interval[0] > 1
            for name in names
        ),
    }


def mean_is(found: Sequence[float], within: bool) -> bool:
    """Whether the mean is within 2, or else is not, its interval included: it may be neither."""
    _, low, high = student_interval(found)
    return low > -WITHIN and high < WITHIN if within else low > WITHIN or high < -WITHIN


def share_within(found: Sequence[float]) -> tuple[float, float, float]:
    """The share of networks that stay within 2, and its interval."""
    share = sum(abs(change) < WITHIN for change in found) / len(found)
    return share, *wilson(share, len(found))


def names_of(rows: Sequence[Row]) -> list[str]:
    return sorted({row.activation for row in rows})


def compare(rows: list[Row]) -> list[Evidence]:
    """Powers and exponents beside the thesis, and the change of the gradient."""
    found, deepest = [], max(row.depth for row in rows)
    for name in names_of(rows):
        law = fitted(rows, name)
        quantity, why = f"c₂ of the rate R₀ + c₁α^c₂, {name}", "above the rate of the linear network, over these gains"
        found.append(_beside(quantity, PRINTED_POWERS[name], law.power, law.power_interval, why))
        ends = tuple(sorted((1 + MARGIN) / power for power in law.power_interval))
        quantity, why = f"gain exponent found, {name}", "the thesis takes one for both; k c₂ > 1 bounds the sum"
        found.append(_beside(quantity, PRINTED_EXPONENT, law.exponent(MARGIN), (ends[0], ends[1]), why))
        for share in SHARES:
            of_seeds = changes(rows, name, share)
            mean, low, high = student_interval(of_seeds)
            part, least, most = share_within(of_seeds)
            said = f"within 2 for {part:.0%} of {len(of_seeds)} networks [{least:.0%}, {most:.0%}]"
            quantity = f"log ‖∇W₁‖ at depth {deepest} minus depth {SHALLOW}, {name}, {share:.2g} of the exponent"
            right = mean_is(of_seeds, within=share == SHARES[-1])
            found.append(Evidence(quantity, None, mean, low, high, "agrees" if right else "differs", said))
    return found


def _beside(quantity: str, printed: float, ours: float, ends: tuple[float, float], why: str) -> Evidence:
    verdict: Verdict = "agrees" if ends[0] - DIGITS <= printed <= ends[1] + DIGITS else "differs"
    return Evidence(quantity, printed, ours, *ends, verdict, why)


def plot(rows: list[Row]) -> list[Panel]:
    """A panel an activation of rates and the law, and one of gradients over depth."""
    panels = []
    for name in names_of(rows):
        law, curve = fitted(rows, name), rates(rows, name)
        curve.pop(LINEAR)
        gains, seeds = list(curve), len({row.seed for row in rows})
        fit = Series(
            Math(rf"$R_0 + {law.scale:.3g}\,\alpha^{{{law.power:.2f}}}$"), gains, [law.rate(gain) for gain in gains]
        )
        series = [averaged("measured", curve), fit]
        measure = f"explosion rate, mean ± 2 s.e. of {seeds} seeds"
        panels.append(Panel(name, measure, "gain α", series))
    for name in names_of(rows):
        curves = {share: gradients(rows, name, share) for share in SHARES}
        series = [
            averaged(
                Math(rf"gain $\ell^{{-{share * fitted(rows, name).exponent(MARGIN):.2f}}}$") if share else "gain 1",
                curve,
            )
            for share, curve in curves.items()
        ]
        # Without gains the gradient leaves the picture: what stays is to be seen.
        ends = [end for one in series[1:] for end in (*one.low, *one.high)]
        measure = f"log ‖∇W₁‖, mean ± 2 s.e. of {len({row.seed for row in rows})} seeds"
        panels.append(Panel(name, measure, "layers of the network", series, y_range=around(ends)))
    return panels
