"""The kernel map against the reference table, mpmath at 50 digits, closed forms and conditional expectations."""

import json
import math
from collections.abc import Callable

import pytest
import torch
from mpmath import mp, mpf
from torch import Tensor, nn

from orthoscope.theory.kernel.hermite import hermite_polynomials
from orthoscope.theory.kernel.kernel_map import KernelMap, kernel_map, leaky_relu_overlap_map, relu_overlap_map
from references import closed_forms, kernel_maps

MAPS: dict[str, KernelMap] = {}
REFERENCE = json.loads(kernel_maps.TABLE.read_text())
KINKED = {name for name, (_, kinks) in kernel_maps.ACTIVATIONS.items() if kinks}
OVERLAPS = torch.cos(torch.linspace(0.0, math.pi, 101, dtype=torch.float64))
ROUNDING = 2e-14


def the_map(name: str) -> KernelMap:
    """Maps are found once for all tests."""
    return MAPS.setdefault(name, kernel_map(name))


# φ: C, κ(0), κ'(0), κ'(1), ρ*, κ'(ρ*), case, as printed in the reference.
TABLE: dict[str, tuple[str, str, str, str, str, str, int]] = {
    "tanh": (".62793", "0", ".930470", "1.177807", "0", ".9305", 1),
    "sin": (".65752", "0", ".850918", "1.313035", "0", "", 1),
    "cube": ("3.87298", "0", ".6", "1.8", "0", "", 1),
    "selu": ("1.00000", "0", ".970680", "1.071575", "0", "", 1),
    "sigmoid": (".54164", ".852140", ".145519", ".152827", "1", ".1528", 2),
    "softplus": (".95982", ".705275", ".271372", ".318459", "1", "", 2),
    "relu": (".70711", ".318310", ".5", "1", "1", "1", 3),
    "exp": ("2.71828", ".367879", ".367879", "1", "1", "1", 3),
    "gelu": (".65209", ".187144", ".587929", "1.072032", ".760402", ".932729", 4),
    "silu": (".59647", ".119998", ".702690", "1.066634", ".658667", ".935385", 4),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_reference_table_is_met_to_every_printed_digit(name: str) -> None:
    kappa = the_map(name)
    found = (
        kappa.scale,
        kappa.at_zero,
        kappa.slope_at_zero,
        kappa.slope_at_one,
        kappa.fixed_point,
        kappa.slope_at_fixed_point,
    )
    for value, number in zip(found, TABLE[name], strict=False):
        printed = str(number)
        digits = len(printed.partition(".")[2])
        assert not printed or value == pytest.approx(float(printed), abs=0.5001 * 10**-digits if digits else 1e-12)
    assert kappa.case == TABLE[name][-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", kernel_maps.ACTIVATIONS)
def test_maps_agree_with_mpmath_at_fifty_digits(name: str) -> None:
    """Values, slopes and landmarks: 1e-12 for smooth activations, 1e-10 with kinks; found here is 1e-13."""
    kappa, row = the_map(name), REFERENCE[name]
    allowed = 1e-10 if name in KINKED else 1e-12
    for key in ("scale", "at_zero", "slope_at_zero", "slope_at_one"):
        assert getattr(kappa, key) == pytest.approx(float(row[key]), rel=allowed, abs=allowed), key
    overlaps = torch.tensor([float(text) for text in kernel_maps.OVERLAPS], dtype=torch.float64)
    for found, texts in ((kappa(overlaps), row["values"]), (kappa.derivative(overlaps), row["slopes"])):
        expected = torch.tensor([float(text) for text in texts], dtype=torch.float64)
        torch.testing.assert_close(found, expected, rtol=allowed, atol=allowed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanhshrink", "hard_swish"])
def test_the_stored_reference_is_what_mpmath_finds_again(name: str) -> None:
    function, kinks = kernel_maps.ACTIVATIONS[name]
    total = kernel_maps.energy(function, kinks)
    squares = kernel_maps.squared_coefficients(function, kinks, 2)
    assert float(mp.sqrt(total)) == float(REFERENCE[name]["scale"])
    assert float(squares[1] / total) == pytest.approx(float(REFERENCE[name]["slope_at_zero"]), rel=1e-15)


CLOSED: list[tuple[Callable[[Tensor], Tensor] | str, Callable[[Tensor], Tensor]]] = [
    ("relu", relu_overlap_map),
    ("leaky_relu", lambda r: leaky_relu_overlap_map(r, 0.01)),
    ("abs", lambda r: leaky_relu_overlap_map(r, -1.0)),
    ("step", closed_forms.step_overlap_map),
    ("sign", closed_forms.sign_overlap_map),
    ("exp", closed_forms.exponential_overlap_map),
    (lambda x: torch.exp(3 * x), lambda r: closed_forms.exponential_overlap_map(r, 3.0)),
    ("sin", closed_forms.sine_overlap_map),
    (lambda x: torch.sin(3 * x), lambda r: closed_forms.sine_overlap_map(r, 3.0)),
    ("cos", closed_forms.cosine_overlap_map),
    ("erf", closed_forms.erf_overlap_map),
    (lambda x: torch.erf(5 * x), lambda r: closed_forms.erf_overlap_map(r, 5.0)),
]


@pytest.mark.parametrize(("activation", "closed"), CLOSED)
def test_maps_with_a_closed_form_are_it_on_the_whole_interval(
    activation: Callable[[Tensor], Tensor] | str, closed: Callable[[Tensor], Tensor]
) -> None:
    near = 1 - torch.logspace(-12, -1, 12, dtype=torch.float64)
    overlaps = torch.cat([OVERLAPS, near, -near])
    torch.testing.assert_close(kernel_map(activation)(overlaps), closed(overlaps), rtol=0, atol=10 * ROUNDING)


@pytest.mark.parametrize("name", ["relu", "erf", "sin", "exp", "step"])
def test_slopes_are_those_of_the_closed_form(name: str) -> None:
    closed = {name: function for name, function in CLOSED if isinstance(name, str)}[name]
    overlaps = OVERLAPS[1:-1].clone().requires_grad_(True)
    (slopes,) = torch.autograd.grad(closed(overlaps).sum(), overlaps)
    torch.testing.assert_close(the_map(name).derivative(OVERLAPS[1:-1]), slopes, rtol=1e-11, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high", "overlap"), [(-0.3, 2.0, 0.99999), (-0.3, 2.0, -0.999)])
def test_clamps_near_the_ends_agree_with_conditional_expectations(low: float, high: float, overlap: float) -> None:
    r"""$\kappa = \mathbb{E}\,\phi(X)\,\mathbb{E}[\phi(Y)|X]$; for a clamp the inner mean has a closed form."""
    with mp.workdps(20):
        rho, a, b = mpf(overlap), mpf(low), mpf(high)
        deviation = mp.sqrt(1 - rho**2)

        def clamped(x: mpf) -> mpf:
            return min(max(x, a), b)

        def inner(x: mpf) -> mpf:
            p, q = (a - rho * x) / deviation, (b - rho * x) / deviation
            middle = rho * x * (mp.ncdf(q) - mp.ncdf(p)) - deviation * (mp.npdf(q) - mp.npdf(p))
            return a * mp.ncdf(p) + b * mp.ncdf(-q) + middle

        points = [-9, 9, a, b, *(kink / rho + k * deviation for kink in (a, b) for k in (-8, -4, 0, 4, 8))]
        inside = sorted({point for point in points if -9 <= point <= 9})
        total = mp.quad(lambda x: clamped(x) ** 2 * mp.npdf(x), inside)
        expected = mp.quad(lambda x: clamped(x) * inner(x) * mp.npdf(x), inside) / total
    found = kernel_map(lambda x: x.clamp(low, high))(overlap)
    assert found == pytest.approx(float(expected), abs=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("gain", [0.1, 3.0, 10.0])
def test_a_gain_is_followed_from_almost_linear_to_almost_a_jump(gain: float) -> None:
    """The value of two routes that share only the activation: the interpolated map and its Hermite series."""
    kappa = kernel_map("tanh", gain=gain)
    overlaps = torch.linspace(-0.8, 0.8, 9, dtype=torch.float64)
    squares = kappa.coefficients(200).square()
    series = overlaps[:, None] ** torch.arange(200) @ squares
    torch.testing.assert_close(kappa(overlaps), series, rtol=0, atol=1e-12)
    assert (kappa(0.5) > 0.49) == (gain < 1), "nearly the identity, or nearly the sign"


def test_coefficients_are_of_the_activation_divided_by_its_scale() -> None:
    coefficients = torch.tensor([0.3, -1.0, 0.0, 0.7], dtype=torch.float64)
    kappa = kernel_map(lambda x: torch.einsum("k,k...->...", coefficients, hermite_polynomials(x, 4)))
    torch.testing.assert_close(kappa.coefficients(4), coefficients / coefficients.norm(), rtol=0, atol=1e-13)
    expected = closed_forms.hermite_overlap_map(OVERLAPS, coefficients)
    torch.testing.assert_close(kappa(OVERLAPS), expected, rtol=0, atol=ROUNDING)


@pytest.mark.slow
def test_modules_functions_and_names_are_one_map() -> None:
    for other in (nn.GELU(), nn.GELU, nn.functional.gelu):
        torch.testing.assert_close(kernel_map(other)(OVERLAPS), the_map("gelu")(OVERLAPS), rtol=0, atol=ROUNDING)
    difference = (kernel_map(nn.GELU("tanh"))(OVERLAPS) - the_map("gelu")(OVERLAPS)).abs().max()
    assert 1e-6 < difference < 1e-3, "the approximation is another function"


def test_normalization_after_the_activation_recentres_or_leaves_the_map() -> None:
    r"""Section 5.6: post-LN turns $\kappa$ into $(\kappa - \kappa(0))/(1 - \kappa(0))$; the other three leave it."""
    kappa = the_map("relu")
    expected = (kappa(OVERLAPS) - kappa.at_zero) / (1 - kappa.at_zero)
    post = kernel_map("relu", norm="layer", order="activation-norm")
    torch.testing.assert_close(post(OVERLAPS), expected, rtol=0, atol=ROUNDING)
    assert (post.centered, post.case) == (True, 1)
    for norm, order in [("rms", "norm-activation"), ("rms", "activation-norm"), ("layer", "norm-activation")]:
        torch.testing.assert_close(kernel_map("relu", norm, order)(OVERLAPS), kappa(OVERLAPS), rtol=0, atol=0)


@pytest.mark.slow
def test_input_variance_is_a_stretched_activation() -> None:
    wide = kernel_map("tanh", input_variance=4.0)
    torch.testing.assert_close(wide(OVERLAPS), kernel_map(lambda x: torch.tanh(2 * x))(OVERLAPS), rtol=0, atol=ROUNDING)
    homogeneous = kernel_map("relu", input_variance=4.0)
    torch.testing.assert_close(homogeneous(OVERLAPS), the_map("relu")(OVERLAPS), rtol=0, atol=ROUNDING)


@pytest.mark.slow
def test_trajectories_are_the_map_again_and_again() -> None:
    start = torch.cat([OVERLAPS, torch.linspace(-1.0, 1.0, 100, dtype=torch.float64)]).reshape(3, 67)
    for name in ("gelu", "relu", "tanh", "sign", "hardtanh"):
        found = the_map(name).trajectory(start, 60)
        assert found.shape == (61, 3, 67)
        torch.testing.assert_close(found[0], start, rtol=0, atol=ROUNDING)
        torch.testing.assert_close(found[1:], the_map(name)(found[:-1]), rtol=0, atol=1e-12)


def test_identical_and_opposite_inputs_stay_so_for_ever_under_an_odd_activation() -> None:
    ends = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    assert torch.equal(the_map("tanh").trajectory(ends, 300), ends.expand(301, 2))


@pytest.mark.parametrize(
    ("activation", "centered", "stable", "nonlinear", "case"),
    [
        ("tanh", True, False, True, 1),
        ("selu", True, True, True, 1),
        ("sign", True, True, True, 1),
        ("step", False, False, True, 4),
        ("identity", True, True, False, None),
        (lambda x: 3 * x, True, False, False, None),
        (lambda x: 0.6 + 0.8 * x, False, True, False, 2),
        (lambda x: torch.ones_like(x), False, True, False, 2),
    ],
)
def test_properties_of_table_5_2(
    activation: Callable[[Tensor], Tensor] | str, centered: bool, stable: bool, nonlinear: bool, case: int | None
) -> None:
    kappa = kernel_map(activation)
    assert (kappa.centered, kappa.stable, kappa.nonlinear, kappa.case) == (centered, stable, nonlinear, case)
    if case is None:
        assert math.isnan(kappa.fixed_point)
        assert kappa.rate == 1


def test_jumps_make_the_slope_at_one_infinite() -> None:
    for name in ("sign", "step", "hardshrink"):
        assert the_map(name).slope_at_one == math.inf
        assert the_map(name).derivative(1.0) == math.inf


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (lambda: kernel_map("relu", norm="batch"), "gram_fixed_point"),
        (lambda: kernel_map("relu", norm="group"), "unknown"),
        (lambda: kernel_map("relu", norm="layer", order="post"), "unknown"),
        (lambda: kernel_map("relu", norm="rms", input_variance=2.0), "makes the input variance 1"),
        (lambda: kernel_map(lambda x: 0 * x), "is 0 everywhere"),
        (lambda: kernel_map(torch.ones_like, norm="layer", order="activation-norm"), "is constant"),
        (lambda: kernel_map(lambda x: torch.exp(x**2)), "square-integrable"),
        (lambda: the_map("relu")(1.1), "not a cosine"),
        (lambda: the_map("relu")(torch.tensor([0.0, math.nan])), "not a cosine"),
        (lambda: the_map("relu").trajectory(0.5, -1), "at least 0"),
        (lambda: the_map("relu").coefficients(0), "at least 1"),
        (lambda: the_map("tanh").slow_distance(10), "only case 3"),
        (lambda: the_map("identity").bound(0.5, 3), "there is no limit"),
    ],
)
def test_what_has_no_answer_gets_one_sentence(asked: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        asked()


@pytest.mark.slow
@pytest.mark.parametrize("gain", [30.0, 100.0])
def test_a_fast_sine_follows_its_closed_form_to_rounding(gain: float) -> None:
    kappa = kernel_map("sin", gain=gain)
    near = 1 - torch.logspace(-9, 0, 40, dtype=torch.float64)
    overlaps = torch.cat([-near, near])
    exact = closed_forms.sine_overlap_map(overlaps, gain)
    assert float((kappa(overlaps) - exact).abs().max()) < 1e-13
    assert kappa.slope_at_one == pytest.approx(gain**2 / math.tanh(gain**2), rel=1e-12)


@pytest.mark.slow
def test_a_steep_error_function_follows_its_closed_form() -> None:
    near = 1 - torch.logspace(-9, 0, 40, dtype=torch.float64)
    overlaps = torch.cat([-near, near])
    exact = closed_forms.erf_overlap_map(overlaps, 100.0)
    assert float((kernel_map("erf", gain=100.0)(overlaps) - exact).abs().max()) < 1e-13


def test_the_slope_at_one_of_the_steepest_tanh_is_found() -> None:
    r"""$\mathbb{E}\phi'^2 \to \tfrac{4}{3g}p(0)$ and $C^2 \to 1/g^2$: it was 0, for all nodes missed the slope."""
    gain = 1e4
    limit = 4 / 3 / math.sqrt(2 * math.pi) * gain
    assert kernel_map("tanh", gain=gain).slope_at_one == pytest.approx(limit, rel=1e-3)


@pytest.mark.parametrize("gain", [200.0, 300.0, 1000.0])
def test_what_is_too_steep_for_the_map_is_refused(gain: float) -> None:
    with pytest.raises(ValueError, match="too fast"):
        kernel_map("sin", gain=gain)(0.3)


@pytest.mark.parametrize("frequency", [0.01, 1.0, 5.0, 30.0, 1e3])
def test_closed_forms_of_sine_and_cosine_do_not_overflow(frequency: float) -> None:
    overlaps = torch.tensor([-1.0, -0.9999, -0.5, 0.0, 0.3, 0.999999, 1.0], dtype=torch.float64)
    square = mpf(frequency) ** 2
    sine = [float(mp.sinh(square * rho) / mp.sinh(square)) for rho in overlaps.tolist()]
    cosine = [float(mp.cosh(square * rho) / mp.cosh(square)) for rho in overlaps.tolist()]
    assert closed_forms.sine_overlap_map(overlaps, frequency).tolist() == pytest.approx(sine, rel=1e-9, abs=1e-300)
    assert closed_forms.cosine_overlap_map(overlaps, frequency).tolist() == pytest.approx(cosine, rel=1e-9, abs=1e-300)


def test_too_many_jumps_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"\d+ kinks or jumps: integrals are split at 64 at most"):
        kernel_map(lambda x: (x * 8).round() / 8)
