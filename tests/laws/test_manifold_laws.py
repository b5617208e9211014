"""What every manifold and every retraction must obey; a new one earns all of it by joining the table."""

import itertools

import pytest
import torch
from torch import Tensor

from orthoscope.linalg.polar import orthonormality_error, polar_factor
from orthoscope.manifolds import Stiefel
from orthoscope.manifolds._retractions import RETRACTIONS

MANIFOLDS = [Stiefel("euclidean"), Stiefel("canonical")]
SHAPES = [(12, 4), (3, 7, 5), (2, 2, 5, 5), (6, 1), (1, 1)]
DTYPES = [torch.float64, torch.float32, torch.complex128]

manifolds = pytest.mark.parametrize("manifold", MANIFOLDS, ids=lambda manifold: manifold.metric)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
retractions = pytest.mark.parametrize("method", RETRACTIONS)

# The retraction that follows the geodesics of a metric to second order.
SECOND_ORDER: list[tuple[Stiefel, str]] = [
    (Stiefel("euclidean"), "polar"),
    (Stiefel("canonical"), "cayley"),
]


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def point(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return polar_factor(gaussian(*shape, seed=seed, dtype=dtype))


def tangent(manifold: Stiefel, x: Tensor, seed: int = 2) -> Tensor:
    return manifold.to_tangent(x, gaussian(*x.shape, seed=seed, dtype=x.dtype))


def close(left: Tensor, right: Tensor, roundings: float = 100) -> bool:
    eps = torch.finfo(left.dtype).eps
    return torch.allclose(left, right, rtol=roundings * eps, atol=roundings * eps)


@manifolds
@shapes
@dtypes
def test_projection_keeps_points_and_is_idempotent(
    manifold: Stiefel, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = point(*shape, dtype=dtype)
    assert close(manifold.project(x), x)
    matrix = gaussian(*shape, dtype=dtype)
    once = manifold.project(matrix)
    assert bool(manifold.contains(once).all())
    assert close(manifold.project(once), once)
    assert not bool(manifold.contains(once * 1.001).any())


@manifolds
@shapes
def test_projection_is_nearer_than_any_other_frame(manifold: Stiefel, shape: tuple[int, ...]) -> None:
    matrix = gaussian(*shape)
    nearest = manifold.distance_to(matrix)
    torch.testing.assert_close(torch.linalg.matrix_norm(matrix - manifold.project(matrix)), nearest)
    x = manifold.project(matrix)
    for seed, length in itertools.product(range(10), (1e-3, 0.1, 3.0)):
        other = manifold.retract(x, length * tangent(manifold, x, seed))
        assert bool((torch.linalg.matrix_norm(matrix - other) >= nearest * (1 - 1e-12)).all())


@manifolds
@shapes
@dtypes
def test_tangent_projection_lands_in_the_tangent_space_and_is_idempotent(
    manifold: Stiefel, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x, ambient = point(*shape, dtype=dtype), gaussian(*shape, dtype=dtype)
    v = manifold.to_tangent(x, ambient)
    scale = torch.linalg.matrix_norm(ambient).max().item()
    asymmetry = (x.mH @ v + v.mH @ x).abs().max().item()
    assert asymmetry <= 50 * torch.finfo(dtype).eps * scale
    assert close(manifold.to_tangent(x, v), v)
    in_place = ambient.flatten(0, -3).clone() if ambient.ndim > 3 else ambient.clone()
    frames = x.flatten(0, -3) if x.ndim > 3 else x
    assert close(manifold.to_tangent_(frames, in_place).reshape(shape), v)


@manifolds
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_tangent_projection_is_self_adjoint_in_the_metric(manifold: Stiefel, dtype: torch.dtype) -> None:
    x = point(3, 7, 4, dtype=dtype)
    u, v = gaussian(3, 7, 4, seed=5, dtype=dtype), gaussian(3, 7, 4, seed=6, dtype=dtype)
    left = manifold.inner(x, manifold.to_tangent(x, u), v)
    assert close(left, manifold.inner(x, u, manifold.to_tangent(x, v)))
    assert not close(left, manifold.inner(x, u, v))


@manifolds
@pytest.mark.parametrize(("n", "k"), [(6, 3), (5, 5), (4, 1), (1, 1)])
def test_degrees_of_freedom_are_the_rank_of_the_projection(manifold: Stiefel, n: int, k: int) -> None:
    x = point(n, k)
    basis = torch.eye(n * k, dtype=torch.float64).reshape(n * k, n, k)
    projection = manifold.to_tangent(x.expand(n * k, n, k), basis).flatten(1)
    assert torch.linalg.matrix_rank(projection).item() == manifold.degrees_of_freedom(n, k)
    assert close(projection.trace(), torch.tensor(float(manifold.degrees_of_freedom(n, k)), dtype=torch.float64))


@manifolds
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradient_represents_the_differential_in_the_metric(manifold: Stiefel, dtype: torch.dtype) -> None:
    r"""The inner product of the gradient with any tangent $V$ is $\operatorname{Re}\operatorname{tr} G^\mathsf{H}V$."""
    x, ambient = point(3, 7, 4, dtype=dtype), gaussian(3, 7, 4, dtype=dtype)
    gradient = manifold.riemannian_gradient(x, ambient)
    assert bool(manifold.is_tangent(x, gradient).all())
    for seed in range(10, 15):
        v = tangent(manifold, x, seed)
        differential = Stiefel("euclidean").inner(x, ambient, v)
        assert close(manifold.inner(x, gradient, v), differential, 1000)
        wrong = Stiefel("canonical" if manifold.metric == "euclidean" else "euclidean")
        assert not close(wrong.inner(x, gradient, v), differential, 1e6)
    assert close(manifold.riemannian_gradient_(x, ambient.clone()), gradient)


@manifolds
@shapes
@dtypes
def test_inner_product_is_positive_symmetric_and_gives_the_norm(
    manifold: Stiefel, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = point(*shape, dtype=dtype)
    u, v = tangent(manifold, x, 3), tangent(manifold, x, 4)
    assert manifold.inner(x, u, v).dtype == torch.zeros((), dtype=dtype).real.dtype
    assert close(manifold.inner(x, u, v), manifold.inner(x, v, u), 1000)
    assert close(manifold.norm(x, u).square(), manifold.inner(x, u, u), 1000)
    real_sphere = shape[-2:] == (1, 1) and not dtype.is_complex  # two points, no tangent vector
    assert bool((manifold.inner(x, u, u) > 0).all()) != real_sphere


@pytest.mark.parametrize("length", [0.0, 1e-3, 0.3, 1.0, 30.0, 1e4])
@shapes
@dtypes
@retractions
def test_retraction_lands_on_the_manifold_for_steps_of_any_length(
    method: str, dtype: torch.dtype, shape: tuple[int, ...], length: float
) -> None:
    x = point(*shape, dtype=dtype)
    v = length * tangent(Stiefel(), x)
    y = Stiefel().retract(x, v, method)
    # Cayley alone multiplies what x lacks to be a frame by the step, and inverts a condition of the step squared.
    eps = torch.finfo(dtype).eps
    lost = eps * length + torch.finfo(torch.float64).eps * length**2 if method == "cayley" else 0
    assert orthonormality_error(y).max().item() <= 30 * (eps + lost)
    if length == 0:
        assert close(y, x, 10)


@shapes
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@retractions
def test_retraction_agrees_with_the_straight_line_to_first_order(
    method: str, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    x = point(*shape, dtype=dtype)
    v = tangent(Stiefel(), x)
    errors = [(Stiefel().retract(x, t * v, method) - x - t * v).abs().max().item() for t in (1e-2, 1e-3, 1e-4)]
    size = torch.linalg.matrix_norm(v).max().item()
    for t, error in zip((1e-2, 1e-3, 1e-4), errors, strict=True):
        assert error <= (t * size) ** 2 + 1e-14
    if size > 0.1:
        assert errors[0] > 1e-6, "a retraction bends; a straight line would leave the manifold"


@pytest.mark.parametrize(("manifold", "method"), SECOND_ORDER, ids=lambda value: getattr(value, "metric", value))
def test_second_order_retractions_follow_the_geodesic_of_their_metric(manifold: Stiefel, method: str) -> None:
    x = point(7, 4)
    v = tangent(manifold, x)

    def error(of: Stiefel, t: float) -> float:
        return (of.retract(x, t * v, method) - of.exp(x, t * v)).abs().max().item()

    other = next(candidate for candidate in MANIFOLDS if candidate != manifold)
    assert error(manifold, 1e-2) / error(manifold, 5e-3) == pytest.approx(8, rel=0.1)
    assert error(other, 1e-2) / error(other, 5e-3) == pytest.approx(4, rel=0.1)


def test_the_polar_retraction_is_the_nearest_frame() -> None:
    x = point(3, 9, 4)
    for length in (1e-4, 0.05, 0.4, 2.0, 50.0):
        v = length * tangent(Stiefel(), x)
        assert close(Stiefel().retract(x, v, "polar"), polar_factor(x + v), 1000)


def test_qr_retraction_has_a_positive_triangle() -> None:
    x = point(3, 6, 4)
    v = tangent(Stiefel(), x)
    triangle = Stiefel().retract(x, v, "qr").mT @ (x + v)
    assert bool((triangle.diagonal(dim1=-2, dim2=-1) > 0).all())
    assert close(triangle.tril(-1), torch.zeros_like(triangle))


def test_cayley_retraction_is_the_transform_of_a_skew_matrix() -> None:
    """Against the definition of Wen and Yin, with its n x n inverse."""
    x = point(3, 6, 4, dtype=torch.complex128)
    v = tangent(Stiefel(), x)
    identity = torch.eye(6, dtype=x.dtype)
    half = (identity - x @ x.mH / 2) @ v @ x.mH
    skew = half - half.mH
    assert close(skew @ x, v)
    expected = torch.linalg.solve(identity - skew / 2, (identity + skew / 2) @ x)
    assert close(Stiefel().retract(x, v, "cayley"), expected)


@manifolds
@shapes
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_geodesic_stays_on_the_manifold_at_constant_speed(
    manifold: Stiefel, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = point(*shape, dtype=dtype)
    v = tangent(manifold, x)
    assert close(manifold.exp(x, 0 * v), x)
    step = 1e-5
    for time in (0.0, 0.5, 2.0):
        here, there = manifold.exp(x, (time - step) * v), manifold.exp(x, (time + step) * v)
        middle = manifold.exp(x, time * v)
        assert orthonormality_error(middle).max().item() < 1e-13
        velocity = (there - here) / (2 * step)
        assert torch.allclose(manifold.norm(middle, velocity), manifold.norm(x, v), rtol=1e-7, atol=1e-9)


@manifolds
def test_geodesic_has_no_acceleration_of_its_own(manifold: Stiefel) -> None:
    r"""A geodesic started anew from its own middle arrives at its end; a retraction does not."""
    x = point(6, 3)
    v = tangent(manifold, x)
    step = 1e-6
    middle = manifold.exp(x, 0.5 * v)
    velocity = (manifold.exp(x, (0.5 + step) * v) - manifold.exp(x, (0.5 - step) * v)) / (2 * step)
    velocity = manifold.to_tangent(middle, velocity)
    torch.testing.assert_close(manifold.exp(middle, 0.5 * velocity), manifold.exp(x, v), rtol=0, atol=1e-8)
    other = next(candidate for candidate in MANIFOLDS if candidate != manifold)
    assert (other.exp(middle, 0.5 * velocity) - manifold.exp(x, v)).abs().max().item() > 1e-3


def test_geodesics_do_not_care_for_columns_that_stand_still() -> None:
    """A QR factor of the normal part would be arbitrary in the zero column, and spoil the frame."""
    x = torch.eye(5, 3, dtype=torch.float64)
    v = torch.zeros_like(x)
    v[3, 1], v[4, 2] = 0.7, -0.4
    for manifold in MANIFOLDS:
        y = manifold.exp(x, v)
        expected = x.clone()
        expected[1, 1], expected[3, 1] = torch.cos(torch.tensor(0.7)), torch.sin(torch.tensor(0.7))
        expected[2, 2], expected[4, 2] = torch.cos(torch.tensor(0.4)), -torch.sin(torch.tensor(0.4))
        torch.testing.assert_close(y, expected, rtol=0, atol=1e-7)


@manifolds
@shapes
@dtypes
def test_transport_lands_in_the_tangent_space_is_linear_and_never_lengthens(
    manifold: Stiefel, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = point(*shape, dtype=dtype)
    u, v = tangent(manifold, x, 3), tangent(manifold, x, 4)
    y = manifold.retract(x, 0.5 * u)
    moved = manifold.transport(x, y, v)
    size = 1 + torch.linalg.matrix_norm(v).max().item()
    assert (y.mH @ moved + moved.mH @ y).abs().max().item() <= 100 * torch.finfo(dtype).eps * size
    assert close(manifold.transport(x, y, 2 * u - v), 2 * manifold.transport(x, y, u) - moved, 1000)
    euclidean = Stiefel("euclidean")
    assert bool((euclidean.norm(y, moved) <= euclidean.norm(x, v) * (1 + 1e-5) + 1e-12).all())
    assert close(manifold.transport(x, x, v), v)


@manifolds
def test_samples_are_uniform_over_the_frames(manifold: Stiefel) -> None:
    r"""$E X_{ij}^2 = 1/n$, $E X_{ij}^4 = 3/(n(n+2))$, $E\,X_{11}X_{12}X_{21}X_{22} = -1/((n-1)n(n+2))$ under Haar."""
    n, count = 4, 40_000
    x = manifold.sample(count, n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert bool(manifold.contains(x).all())

    def score(values: Tensor, mean: float) -> float:
        return abs((values.mean() - mean) / (values.std() / count**0.5)).item()

    for i, j in itertools.product(range(n), range(2)):
        assert score(x[:, i, j], 0) < 4.5
        assert score(x[:, i, j] ** 2, 1 / n) < 4.5
        assert score(x[:, i, j] ** 4, 3 / (n * (n + 2))) < 4.5
    loop = x[:, 0, 0] * x[:, 0, 1] * x[:, 1, 0] * x[:, 1, 1]
    assert score(loop, -1 / ((n - 1) * n * (n + 2))) < 4.5
    assert score(loop, 0) > 10, "the test must be able to reject independent entries"
    unsigned = torch.linalg.qr(gaussian(count, n, 2)).Q
    assert score(unsigned[:, 0, 0], 0) > 10, "and QR without the sign fix"


@manifolds
@retractions
def test_a_batch_is_its_members(manifold: Stiefel, method: str) -> None:
    x, ambient = point(2, 3, 7, 4), gaussian(2, 3, 7, 4)
    v = manifold.to_tangent(x, ambient)
    together = [
        manifold.project(ambient),
        v,
        manifold.riemannian_gradient(x, ambient),
        manifold.retract(x, v, method),
        manifold.exp(x, v),
        manifold.inner(x, v, ambient),
        manifold.distance_to(ambient),
    ]
    for i, j in itertools.product(range(2), range(3)):
        a, b, w = x[i, j], ambient[i, j], v[i, j]
        alone = [
            manifold.project(b),
            manifold.to_tangent(a, b),
            manifold.riemannian_gradient(a, b),
            manifold.retract(a, w, method),
            manifold.exp(a, w),
            manifold.inner(a, w, b),
            manifold.distance_to(b),
        ]
        for stacked, single in zip(together, alone, strict=True):
            assert close(stacked[i, j], single, 1000)


@retractions
def test_a_frame_that_is_nan_gives_nan_and_leaves_its_neighbors_alone(method: str) -> None:
    x = point(3, 6, 3)
    v = tangent(Stiefel(), x)
    v[1, 2, 0] = torch.nan
    y = Stiefel().retract(x, v, method)
    assert bool(y[1].isnan().any())
    assert orthonormality_error(y[[0, 2]]).max().item() < 1e-13
    assert bool(Stiefel().project(v)[1].isnan().all())


@manifolds
def test_wrong_shapes_types_and_names_are_refused(manifold: Stiefel) -> None:
    x = point(5, 3)
    with pytest.raises(ValueError, match=r"n >= k, got \(3, 5\); transpose"):
        manifold.project(x.mT)
    with pytest.raises(ValueError, match=r"got \(5,\)"):
        manifold.contains(x[:, 0])
    for call in (
        manifold.to_tangent,
        manifold.riemannian_gradient,
        manifold.retract,
        manifold.exp,
        manifold.is_tangent,
    ):
        with pytest.raises(ValueError, match=r"the shape of the frame, \(5, 3\), got \(4, 3\)"):
            call(x, x[:4])
    with pytest.raises(TypeError, match=r"floating or complex type, got torch.int64"):
        manifold.project(x.long())
    with pytest.raises(ValueError, match=r"retractions are polar, qr, cayley, got 'svd'"):
        manifold.retract(x, x, "svd")
    with pytest.raises(ValueError, match=r"n >= k, got \(3, 5\)"):
        manifold.sample(3, 5)
    with pytest.raises(ValueError, match=r"n = 2 and k = 3"):
        manifold.degrees_of_freedom(2, 3)
    with pytest.raises(ValueError, match=r"got 'riemannian'"):
        Stiefel("riemannian")
