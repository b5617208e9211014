"""Averages over the sphere against moments, mpmath and the law of its one-dimensional parts."""

from collections.abc import Callable

import mpmath
import pytest
import torch
from torch import Tensor

from orthoscope.theory.gram.sphere import PairLaw, centered_pair, stretched, uncentered_pair

EXACT = 1e-12
HARD = (-1.0, 1.0)


@pytest.mark.parametrize("batch", [2, 3, 4, 5, 6, 7, 16, 100, 10_000])
@pytest.mark.parametrize("kinks", [(), (0.0,), (-1.0, 1.0), (0.3, 20.0)])
def test_centered_coordinates_have_the_moments_of_a_sphere(batch: int, kinks: tuple[float, ...]) -> None:
    law = centered_pair(batch, kinks)
    assert law.average(law.first) == pytest.approx(0, abs=EXACT)
    assert law.average(law.first.square()) == pytest.approx(1, abs=EXACT)
    assert law.average(law.second.square()) == pytest.approx(1, abs=EXACT)
    assert law.average(law.first * law.second) == pytest.approx(-1 / (batch - 1), abs=EXACT)
    assert law.average(law.second**4) == pytest.approx(3 * (batch - 1) / (batch + 1), abs=10 * EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [2, 3, 4, 5, 8, 12])
@pytest.mark.parametrize("kinks", [(), (0.0,), HARD])
def test_uncentered_coordinates_and_their_mean_have_the_moments_of_a_sphere(
    batch: int, kinks: tuple[float, ...]
) -> None:
    law = uncentered_pair(batch, kinks)
    assert law.average(law.first * law.second) == pytest.approx(0, abs=EXACT)
    assert law.average(law.second.square()) == pytest.approx(1, abs=EXACT)
    assert law.average(law.first**4) == pytest.approx(3 * batch / (batch + 2), abs=EXACT)
    assert law.average(law.mean.square()) == pytest.approx(1 / batch, abs=EXACT)
    assert law.average(law.mean * law.first) == pytest.approx(1 / batch, abs=EXACT)


def clipped_pair_by_mpmath(batch: int) -> float:
    r"""$E f(y_1) f(y_2)$ for $f$ clipping at ±1, $n = 5$: $(w_1, w_2)$ is uniform on a disc, so $y_2$ is on a chord."""
    assert batch == 5
    overlap, radius = mpmath.mpf(-1) / 4, mpmath.mpf(2)

    def primitive(x: mpmath.mpf) -> mpmath.mpf:
        return x**2 / 2 if abs(x) <= 1 else abs(x) - mpmath.mpf(1) / 2

    def chord(y: mpmath.mpf) -> mpmath.mpf:
        half = mpmath.sqrt(1 - overlap**2) * mpmath.sqrt(radius**2 - y**2)
        return min(max(y, -1), 1) * (primitive(overlap * y + half) - primitive(overlap * y - half))

    ends = [
        overlap * side + sign * mpmath.sqrt(1 - overlap**2) * mpmath.sqrt(radius**2 - 1)
        for side in (1, -1)
        for sign in (1, -1)
    ]
    area = mpmath.pi * radius**2 * mpmath.sqrt(1 - overlap**2)
    return float(mpmath.quad(chord, sorted([-radius, -1, 1, radius, *ends])) / area)


def test_a_kink_away_from_zero_costs_no_accuracy() -> None:
    law = centered_pair(5, HARD)
    found = law.average(law.first.clamp(-1, 1) * law.second.clamp(-1, 1))
    assert found == pytest.approx(clipped_pair_by_mpmath(5), abs=EXACT)
    unsplit = centered_pair(5)
    blind = unsplit.average(unsplit.first.clamp(-1, 1) * unsplit.second.clamp(-1, 1))
    assert blind != pytest.approx(found, abs=1e-7), "without the split the test must fail"


@pytest.mark.slow
@pytest.mark.parametrize("function", [torch.tanh, torch.exp, torch.sin])
def test_smooth_pairs_agree_with_mpmath_in_other_coordinates(function: Callable[[Tensor], Tensor]) -> None:
    r"""$n = 7$: the density on the disc is $\tfrac2\pi(1-r^2)$, integrated here in polar coordinates."""
    law = centered_pair(7)
    scalar = getattr(mpmath, function.__name__)
    radius, turn = mpmath.sqrt(6), mpmath.acos(mpmath.mpf(-1) / 6)

    def ring(r: mpmath.mpf) -> mpmath.mpf:
        # The trapezoid rule on a circle converges at once.
        angles = [2 * mpmath.pi * k / 64 for k in range(64)]
        total = sum(scalar(radius * r * mpmath.cos(a)) * scalar(radius * r * mpmath.cos(a - turn)) for a in angles)
        return 4 * r * (1 - r**2) * total / 64

    expected = float(mpmath.quad(ring, [0, 1]))
    assert law.average(function(law.first) * function(law.second)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 4.0, 20.0])
def test_a_stretched_law_has_the_energy_of_its_mean(batch: int, ratio: float) -> None:
    r"""$\bar y^2 = rg^2/(rg^2 + \chi^2_{n-1})$, one integral over an angle of density $\cos^{n-2}$."""

    def mean_energy(angle: mpmath.mpf) -> mpmath.mpf:
        along, across = ratio * mpmath.sin(angle) ** 2, mpmath.cos(angle) ** 2
        return mpmath.cos(angle) ** (batch - 2) * along / (along + across)

    half_turn = [0, mpmath.pi / 8, mpmath.pi / 4, mpmath.pi / 2]
    expected = mpmath.quad(mean_energy, half_turn) / mpmath.quad(lambda a: mpmath.cos(a) ** (batch - 2), half_turn)
    law = stretched(uncentered_pair(batch), batch, ratio)
    assert float(law.weight.sum()) == pytest.approx(1, abs=1e-9)
    assert law.average(law.mean.square()) == pytest.approx(float(expected), abs=1e-8)
    # Coordinates are exchangeable and of mean square 1, so their mean says what two have in common.
    common = (batch * float(expected) - 1) / (batch - 1)
    assert law.average(law.first * law.second) == pytest.approx(common, abs=1e-8)


def test_what_the_nodes_cannot_resolve_is_refused() -> None:
    with pytest.raises(ValueError, match="the samples are too alike"):
        stretched(uncentered_pair(8), 8, 1e4)
    with pytest.raises(ValueError, match="must be positive"):
        stretched(uncentered_pair(8), 8, 0.0)


@pytest.mark.parametrize("law", [centered_pair, uncentered_pair])
@pytest.mark.parametrize("batch", [1, 0, -3, True])
def test_one_sample_is_refused(law: Callable[[int], PairLaw], batch: int) -> None:
    with pytest.raises(ValueError, match=f"batch is {batch}, but this quantity needs at least 2 samples"):
        law(batch)
