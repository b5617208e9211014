"""Products of reflections against the loop that defines them, their derivatives, and the way back from a frame."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from orthoscope.linalg import haar, householder
from orthoscope.linalg.householder import householder_coordinates, householder_frame
from orthoscope.linalg.polar import orthonormality_error
from references.reflections import product_of_reflections

# rows, reflections, columns
SHAPES = [(1, 1, 1), (5, 1, 1), (6, 6, 6), (7, 5, 5), (9, 3, 6), (8, 5, 8), (4, 0, 3)]
# One panel, and several of which the last may be narrower.
WIDTHS = [128, 2]


@pytest.fixture(params=WIDTHS, ids=[f"panel{width}" for width in WIDTHS])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(householder, "PANEL", request.param)
    return int(request.param)


def gaussian(*shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


def rebuilt(vectors: Tensor, signs: Tensor) -> Tensor:
    return householder_frame(vectors, signs.shape[-1]) * signs.unsqueeze(-2)


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize(("rows", "count", "columns"), SHAPES)
def test_value_and_gradient_are_those_of_reflections_one_after_another(rows: int, count: int, columns: int) -> None:
    vectors = gaussian(rows, count).requires_grad_()
    weights = gaussian(rows, columns)
    frame, twin = householder_frame(vectors, columns), product_of_reflections(vectors, columns)
    assert torch.allclose(frame, twin, rtol=0, atol=1e-14)
    (gradient,) = torch.autograd.grad(frame, vectors, weights)
    (expected,) = torch.autograd.grad((twin * weights).sum() + 0 * vectors.sum(), vectors)
    assert torch.allclose(gradient, expected, rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.usefixtures("width")
@pytest.mark.parametrize(("rows", "count", "columns"), SHAPES[:-1])
def test_first_and_second_derivatives_pass_the_numerical_check(rows: int, count: int, columns: int) -> None:
    vectors = gaussian(rows, count).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: householder_frame(x, columns), vectors)
    assert torch.autograd.gradgradcheck(lambda x: householder_frame(x, columns), vectors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "count", "columns"), [(300, 300, 300), (300, 200, 250), (400, 130, 130)])
def test_panels_of_a_large_frame_equal_one_panel(
    rows: int, count: int, columns: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors, weights = gaussian(rows, count, dtype=dtype).requires_grad_(), gaussian(rows, columns, dtype=dtype)
    results = []
    for size in (householder.PANEL, rows):
        monkeypatch.setattr(householder, "PANEL", size)
        frame = householder_frame(vectors, columns)
        results.append((frame.detach(), *torch.autograd.grad(frame, vectors, weights)))
    assert count <= householder.PANEL, "the second one was a single panel"
    tolerance = 30 * torch.finfo(dtype).eps
    assert torch.allclose(results[0][0], results[1][0], rtol=0, atol=tolerance)
    assert (results[0][1] - results[1][1]).norm() < tolerance * results[1][1].norm()


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
def test_float32_frames_are_orthonormal_to_rounding_at_every_length_of_the_vectors(scale: float) -> None:
    frame = householder_frame(gaussian(512, 512, scale=scale, dtype=torch.float32), 512)
    assert frame.dtype == torch.float32
    assert orthonormality_error(frame) < 3e-6


@pytest.mark.parametrize("size", [32, 128])
@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
def test_small_float32_frames_are_orthonormal_to_rounding_also_for_parallel_vectors(size: int, scale: float) -> None:
    vectors = gaussian(8, size, size, scale=scale, dtype=torch.float32)
    assert orthonormality_error(householder_frame(vectors, size)).max() < 3e-6
    parallel = vectors[..., :1] + 1e-3 * vectors
    assert orthonormality_error(householder_frame(parallel, size)).max() < 3e-6


def test_the_frame_of_a_matrix_with_growing_pivots_is_kept() -> None:
    """Wilkinson's: -1 below the diagonal, ones on it and in the last column."""
    matrix = torch.eye(128, dtype=torch.float64) - torch.ones(128, 128, dtype=torch.float64).tril(-1)
    matrix[:, -1] = 1
    frame = torch.linalg.qr(matrix).Q.float()
    vectors, signs = householder_coordinates(frame)
    again = householder_frame(vectors, 128) * signs
    assert orthonormality_error(again) < 3e-6
    assert (again - frame).abs().max() < 3e-6


@pytest.mark.parametrize("spread", [1e-1, 1e-3, 1e-5])
def test_nearly_parallel_reflections_are_no_less_orthonormal(spread: float) -> None:
    vectors = gaussian(512, 1, dtype=torch.float32) + spread * gaussian(512, 512, dtype=torch.float32)
    assert orthonormality_error(householder_frame(vectors, 512)) < 3e-6


def test_only_the_strictly_lower_part_is_read_and_gets_a_gradient() -> None:
    vectors = gaussian(6, 4)
    frame = householder_frame(vectors, 5)
    garbage = (vectors.tril(-1) + torch.full((6, 4), torch.nan, dtype=torch.float64).triu()).requires_grad_()
    read = householder_frame(garbage, 5)
    assert torch.equal(read, frame)
    (gradient,) = torch.autograd.grad(read.sin().sum(), garbage)
    assert not gradient.triu().any()
    assert gradient.tril(-1).any()


def test_a_very_tall_frame_needs_no_square_matrix() -> None:
    vectors = gaussian(30_000, 50, dtype=torch.float32).requires_grad_()
    frame = householder_frame(vectors, 50)  # a square one would be 3.6 GB
    frame.sum().backward()
    assert orthonormality_error(frame.detach()) < 3e-6
    assert vectors.grad is not None
    assert vectors.grad.isfinite().all()


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("batch", [(3,), (2, 3), (0,), (2, 0)])
def test_leading_dimensions_are_a_batch(batch: tuple[int, ...]) -> None:
    vectors = gaussian(*batch, 6, 3)
    frames = householder_frame(vectors, 4)
    assert frames.shape == (*batch, 6, 4)
    for one, frame in zip(vectors.reshape(-1, 6, 3), frames.reshape(-1, 6, 4), strict=True):
        assert torch.allclose(frame, product_of_reflections(one, 4), rtol=0, atol=1e-14)


@pytest.mark.usefixtures("width")
def test_functional_transforms_agree_with_the_loop() -> None:
    weights = gaussian(6, 5)

    def ours(x: Tensor) -> Tensor:
        return (householder_frame(x, 5).sin() * weights).sum()

    def loop(x: Tensor) -> Tensor:
        return (product_of_reflections(x, 5).sin() * weights).sum()

    stack = gaussian(6, 3, 4)  # the mapped axis is in the middle
    mapped = torch.func.vmap(torch.func.grad(ours), in_dims=1)(stack)
    for i in range(3):
        assert torch.allclose(mapped[i], torch.func.grad(loop)(stack[:, i]), rtol=0, atol=1e-13)
    jacobian = torch.func.jacrev(lambda x: householder_frame(x, 5))(stack[:, 0])
    assert torch.allclose(
        jacobian, torch.func.jacrev(lambda x: product_of_reflections(x, 5))(stack[:, 0]), rtol=0, atol=1e-13
    )
    hessian = torch.func.jacrev(torch.func.jacrev(ours))(stack[:, 0])
    assert torch.allclose(hessian, torch.func.jacrev(torch.func.jacrev(loop))(stack[:, 0]), rtol=0, atol=1e-12)


COMPILED = """
import torch
from orthoscope.linalg import householder
from orthoscope.linalg.householder import householder_frame

def loss(x):
    return householder_frame(x, 5).sin().sum()

householder.PANEL = 2
vectors = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
(plain,) = torch.autograd.grad(loss(vectors), vectors)
torch.compiler.reset()
compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
(gradient,) = torch.autograd.grad(compiled(vectors), vectors)
assert plain.any() and torch.allclose(gradient, plain, rtol=0, atol=1e-14)
"""


@pytest.mark.slow
def test_a_compiled_graph_is_whole_and_has_the_same_gradient() -> None:
    """In a process of its own: the shape checks of the tests cannot be compiled."""
    run = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_autocast_leaves_the_precision_alone() -> None:
    vectors = gaussian(40, 40, dtype=torch.float32).requires_grad_()
    frame = householder_frame(vectors, 40)
    (plain,) = torch.autograd.grad(frame.square().mul(frame).sum(), vectors)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = householder_frame(vectors, 40)
        (gradient,) = torch.autograd.grad(cast.square().mul(cast).sum(), vectors)
    assert torch.equal(cast, frame)
    assert torch.equal(gradient, plain)


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", ["nan", "inf", "square overflows"])
@pytest.mark.parametrize("column", [0, 2])
def test_what_cannot_be_computed_is_nan(value: str, column: int, dtype: torch.dtype) -> None:
    vectors = gaussian(6, 3, dtype=dtype)
    vectors[4, column] = torch.finfo(dtype).max ** 0.75 if value == "square overflows" else float(value)
    assert householder_frame(vectors, 4).isnan().any()


FRAMES = {
    "haar": haar(7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
    "mirrored": haar(7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    * torch.tensor([-1.0, 1, 1, 1, 1, 1, 1]),
    "tall": haar(9, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64),
    "column": haar(5, 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64),
    "identity": torch.eye(5, dtype=torch.float64),
    "tall identity": torch.eye(6, 3, dtype=torch.float64),
    "minus identity": -torch.eye(5, dtype=torch.float64),
    "permutation": torch.eye(5, dtype=torch.float64)[[2, 0, 1, 4, 3]],
    "signed permutation": torch.eye(5, dtype=torch.float64)[[2, 0, 1, 4, 3]] * torch.tensor([1.0, -1, 1, -1, -1]),
    "one": torch.ones(1, 1, dtype=torch.float64),
    "minus one": -torch.ones(1, 1, dtype=torch.float64),
    "batch": haar(6, 4, 2, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64),
    "empty batch": torch.zeros(0, 4, 3, dtype=torch.float64),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", list(FRAMES))
def test_coordinates_of_a_frame_give_the_frame_back(name: str, dtype: torch.dtype) -> None:
    frame = FRAMES[name].to(dtype)
    vectors, signs = householder_coordinates(frame)
    assert vectors.shape == frame.shape
    assert vectors.dtype == signs.dtype == dtype
    assert (signs.abs() == 1).all()
    assert torch.allclose(rebuilt(vectors, signs), frame, rtol=0, atol=20 * torch.finfo(dtype).eps)


def test_both_determinants_are_among_the_frames_that_come_back() -> None:
    """Otherwise the signs could be constant and the test above would not notice."""
    assert torch.linalg.det(FRAMES["haar"]) * torch.linalg.det(FRAMES["mirrored"]) < 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0], ids=["short", "mixed", "long"])
@pytest.mark.parametrize(("rows", "count", "columns"), [(12, 3, 9), (12, 3, 12), (12, 1, 2), (15, 4, 6), (6, 0, 4)])
def test_a_product_of_few_reflections_and_signs_comes_back(
    rows: int, count: int, columns: int, scale: float, dtype: torch.dtype
) -> None:
    signs = gaussian(3, columns).sign()
    frame = (householder_frame(gaussian(3, rows, count, scale=scale), columns) * signs.unsqueeze(-2)).to(dtype)
    vectors, found = householder_coordinates(frame, count)
    assert vectors.shape == (3, rows, count)
    assert torch.allclose(rebuilt(vectors, found), frame, rtol=0, atol=2e3 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("name", ["identity", "minus identity", "tall identity"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_signed_unit_vectors_need_no_reflections_and_may_have_some(name: str, count: int) -> None:
    assert torch.equal(rebuilt(*householder_coordinates(FRAMES[name], count)), FRAMES[name])


def test_a_swap_is_one_reflection_and_not_none() -> None:
    swap = torch.eye(6, dtype=torch.float64)[[1, 0, 2, 3, 4, 5]]
    vectors, signs = householder_coordinates(swap, 1)
    assert torch.allclose(rebuilt(vectors, signs), swap, rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match=r"not a product of 0 reflections .* 1 are enough, pass num_reflections=1"):
        householder_coordinates(swap, 0)


def test_too_few_reflections_are_refused_with_the_number_that_is_enough() -> None:
    frame = householder_frame(gaussian(12, 5, scale=0.1), 8)
    with pytest.raises(ValueError, match=r"not a product of 4 reflections .* 5 are enough"):
        householder_coordinates(frame, 4)
    with pytest.raises(ValueError, match=r"not a product of 3 reflections .* pass num_reflections=None"):
        householder_coordinates(FRAMES["tall"], 3)


def test_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match=r"complex128: use cayley or exponential"):
        householder_frame(torch.zeros(3, 2, dtype=torch.complex128), 2)
    with pytest.raises(TypeError, match=r"complex64: use cayley or exponential"):
        householder_coordinates(torch.eye(3, dtype=torch.complex64))
    for dtype in (torch.int64, torch.bfloat16):
        with pytest.raises(TypeError, match=r"take float32 or float64, got torch\.\w+: convert"):
            householder_frame(torch.zeros(3, 2, dtype=dtype), 2)
    for shape, columns in [((3, 2), 1), ((3, 2), 4), ((3,), 3)]:
        with pytest.raises(ValueError, match=rf"cannot give {columns} columns: pass .* m <= columns <= n"):
            householder_frame(torch.zeros(shape), columns)
    with pytest.raises(ValueError, match=r"at least as many rows as columns, got \(2, 3\): pass its transpose"):
        householder_coordinates(torch.eye(2, 3))
    for count in (-1, 4):
        with pytest.raises(ValueError, match=rf"between 0 and the 3 columns of the frame, got {count}"):
            householder_coordinates(torch.eye(3), count)
    for matrix in (2 * torch.eye(3), torch.eye(3) * torch.nan):
        with pytest.raises(ValueError, match=r"not orthonormal .* project them with polar_factor first"):
            householder_coordinates(matrix)
