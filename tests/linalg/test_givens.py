"""Frames as products of rotations: the order, the product, its derivatives, and the way back."""

import math
import subprocess
import sys
from itertools import combinations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from orthoscope.linalg import givens_coordinates, givens_count, givens_frame, givens_pairs, haar
from orthoscope.linalg.givens._tiles import tile_order
from orthoscope.linalg.polar import orthonormality_error
from references import rotations

SQUARE = [(1, 1, 0), (2, 2, 1), (3, 3, 2), (5, 5, 4), (6, 6, 5), (7, 7, 6), (12, 12, 11), (33, 33, 32), (70, 70, 69)]
TALL = [(2, 1, 1), (3, 2, 2), (7, 1, 1), (40, 7, 7), (130, 3, 3), (70, 33, 33), (65, 64, 64)]
PARTIAL = [(5, 5, 0), (7, 7, 2), (33, 33, 1), (70, 70, 17), (40, 20, 3), (70, 70, 33)]
SHAPES = SQUARE + TALL + PARTIAL
SMALL = [(2, 2, 1), (4, 4, 3), (5, 3, 3), (5, 5, 2), (34, 2, 2)]


def random_angles(rows: int, pivots: int, *batch: int, generator: torch.Generator) -> Tensor:
    count = givens_count(rows, pivots)
    return (torch.rand(*batch, count, generator=generator, dtype=torch.float64) * 2 - 1) * math.pi


def there_and_back(frame: Tensor, pivots: int | None = None) -> tuple[Tensor, Tensor]:
    angles, signs = givens_coordinates(frame, pivots)
    assert (angles.abs() <= math.pi).all()
    assert (angles > -math.pi).all()
    assert (signs.abs() == 1).all()
    return givens_frame(angles, *frame.shape[-2:], pivots) * signs.unsqueeze(-2), signs


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 12])
def test_every_pair_of_coordinates_is_turned_exactly_once(rows: int) -> None:
    pairs = givens_pairs(rows, rows - 1)
    assert sorted(pairs) == sorted(combinations(range(rows), 2))
    assert len(pairs) == givens_count(rows, rows - 1) == rows * (rows - 1) // 2


@pytest.mark.parametrize(("rows", "columns", "pivots"), SHAPES)
def test_pairs_are_those_that_elimination_clears(rows: int, columns: int, pivots: int) -> None:
    assert givens_pairs(rows, pivots) == rotations.pairs(rows, pivots)
    assert givens_count(rows, pivots) == len(rotations.pairs(rows, pivots))


@pytest.mark.parametrize(("rows", "pivots", "batch"), [(2, 1, 1), (33, 32, 1), (130, 3, 1), (300, 299, 3), (70, 17, 2)])
def test_tiles_take_every_angle_exactly_once(rows: int, pivots: int, batch: int) -> None:
    order = tile_order(rows, pivots, batch, torch.device("cpu"))
    places = torch.cat(
        [
            places.flatten()
            for places in (order.triangle_places, order.tile_places, *(chunk.places for chunk in order.chunks))
        ]
    )
    count = givens_count(rows, pivots)
    assert places[places < count].sort().values.tolist() == list(range(count))
    assert (places <= count).all()


@pytest.mark.parametrize(("rows", "columns", "pivots"), SHAPES)
def test_frame_is_the_product_of_its_rotations(
    rows: int, columns: int, pivots: int, generator: torch.Generator
) -> None:
    angles = random_angles(rows, pivots, 2, generator=generator)
    expected = torch.stack([rotations.frame(each, rows, columns, pivots) for each in angles])
    torch.testing.assert_close(givens_frame(angles, rows, columns, pivots), expected, rtol=0, atol=1e-13)


def test_order_matters(generator: torch.Generator) -> None:
    """The comparison above would see a wrong order: the reversed product is another matrix."""
    angles = random_angles(5, 4, generator=generator)
    reversed_product = givens_frame(-angles, 5, 5).mT
    assert (givens_frame(angles, 5, 5) - reversed_product).abs().max() > 0.1


@pytest.mark.parametrize(("rows", "columns", "pivots"), SHAPES)
def test_frames_are_orthonormal_and_squares_are_rotations(
    rows: int, columns: int, pivots: int, generator: torch.Generator
) -> None:
    frame = givens_frame(random_angles(rows, pivots, generator=generator), rows, columns, pivots)
    assert orthonormality_error(frame) < 1e-13
    if rows == columns:
        torch.testing.assert_close(torch.det(frame), torch.ones((), dtype=torch.float64))


def test_float32_frames_are_orthonormal_to_rounding(generator: torch.Generator) -> None:
    angles = random_angles(512, 511, generator=generator).float()
    frame = givens_frame(angles, 512, 512)
    assert frame.dtype == torch.float32
    assert orthonormality_error(frame) < 2e-6  # measured: 1e-6


@pytest.mark.parametrize(("rows", "columns", "pivots"), SHAPES)
def test_zero_angles_give_the_identity(rows: int, columns: int, pivots: int) -> None:
    frame = givens_frame(torch.zeros(givens_count(rows, pivots)), rows, columns, pivots)
    assert torch.equal(frame, torch.eye(rows, columns))


@pytest.mark.slow
def test_a_very_tall_frame_needs_no_square_matrix(generator: torch.Generator) -> None:
    """30000 rows: a square would take 3.6 GB."""
    angles = random_angles(30000, 50, generator=generator).float().requires_grad_()
    frame = givens_frame(angles, 30000, 50)
    assert orthonormality_error(frame.detach()) < 3e-6
    frame[-1].sum().backward()
    assert angles.grad is not None
    assert angles.grad.isfinite().all()
    assert angles.grad.count_nonzero() > 0


@pytest.mark.parametrize("batch", [(3,), (2, 3), (), (0,), (2, 0)])
def test_batches_are_frames_one_by_one(batch: tuple[int, ...], generator: torch.Generator) -> None:
    angles = random_angles(7, 4, *batch, generator=generator)
    frames = givens_frame(angles, 7, 4)
    assert frames.shape == (*batch, 7, 4)
    for frame, each in zip(frames.reshape(-1, 7, 4), angles.reshape(-1, angles.shape[-1]), strict=True):
        torch.testing.assert_close(frame, givens_frame(each, 7, 4), rtol=0, atol=1e-15)
    angles, signs = givens_coordinates(frames)
    assert angles.shape == (*batch, givens_count(7, 4))
    assert signs.shape == (*batch, 4)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns", "pivots"), SMALL)
def test_first_and_second_derivatives(rows: int, columns: int, pivots: int, generator: torch.Generator) -> None:
    def frame(angles: Tensor) -> Tensor:
        return givens_frame(angles, rows, columns, pivots)

    angles = random_angles(rows, pivots, 2, generator=generator).requires_grad_()
    assert gradcheck(frame, angles, fast_mode=rows > 6)
    assert gradgradcheck(frame, angles, fast_mode=rows > 2)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns", "pivots"), [(33, 33, 32), (40, 7, 7), (70, 40, 17), (48, 33, 33)])
def test_gradient_is_that_of_the_plain_product(
    rows: int, columns: int, pivots: int, generator: torch.Generator
) -> None:
    angles = random_angles(rows, pivots, generator=generator).requires_grad_()
    upstream = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    (fast,) = torch.autograd.grad(givens_frame(angles, rows, columns, pivots), angles, upstream)
    (slow,) = torch.autograd.grad(rotations.differentiable_frame(angles, rows, columns, pivots), angles, upstream)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [70, 150])
def test_large_batches_have_the_frames_and_gradients_of_small_ones(rows: int, generator: torch.Generator) -> None:
    """One block of rows, and several."""
    angles = random_angles(rows, rows - 1, 6, generator=generator).requires_grad_()
    upstream = torch.randn(6, rows, rows, generator=generator, dtype=torch.float64)
    together = givens_frame(angles, rows, rows)
    alone = torch.stack([givens_frame(each, rows, rows) for each in angles])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-13)
    gradients = [torch.autograd.grad(frames, angles, upstream)[0] for frames in (together, alone)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-11)


def test_gradient_under_vmap_is_that_of_autograd(generator: torch.Generator) -> None:
    angles = random_angles(40, 39, generator=generator).requires_grad_()
    upstream = torch.randn(40, 40, generator=generator, dtype=torch.float64)
    (plain,) = torch.autograd.grad(givens_frame(angles, 40, 40), angles, upstream)
    mapped = torch.vmap(torch.func.grad(lambda angles: (givens_frame(angles, 40, 40) * upstream).sum()))(angles[None])
    torch.testing.assert_close(plain, mapped.squeeze(0).detach(), rtol=0, atol=1e-13)


def test_float32_gradient_of_several_chunks_is_that_of_float64(generator: torch.Generator) -> None:
    precise = random_angles(300, 299, generator=generator).requires_grad_()
    upstream = torch.randn(300, 300, generator=generator, dtype=torch.float64)
    (expected,) = torch.autograd.grad(givens_frame(precise, 300, 300), precise, upstream)
    single = precise.detach().float().requires_grad_()
    (gradient,) = torch.autograd.grad(givens_frame(single, 300, 300), single, upstream.float())
    assert (gradient - expected).norm() / expected.norm() < 3e-6  # measured: 1e-6


@pytest.mark.slow
def test_transforms_of_torch_func_agree_with_loops(generator: torch.Generator) -> None:
    def frame(angles: Tensor) -> Tensor:
        return givens_frame(angles, 6, 4)

    def cubes(angles: Tensor) -> Tensor:
        return frame(angles).pow(3).sum()

    def slow_cubes(angles: Tensor) -> Tensor:
        return rotations.differentiable_frame(angles, 6, 4, 4).pow(3).sum()

    angles = random_angles(6, 4, 3, generator=generator)
    torch.testing.assert_close(torch.vmap(frame)(angles), frame(angles))
    torch.testing.assert_close(torch.vmap(frame, in_dims=1)(angles.mT), frame(angles))
    expected = torch.stack([torch.autograd.functional.jacobian(slow_cubes, each) for each in angles])
    torch.testing.assert_close(torch.vmap(torch.func.grad(cubes))(angles), expected)
    jacobian = torch.autograd.functional.jacobian(lambda a: rotations.differentiable_frame(a, 6, 4, 4), angles[0])
    torch.testing.assert_close(torch.func.jacrev(frame)(angles[0]), jacobian)
    hessian = torch.autograd.functional.hessian(slow_cubes, angles[0])
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(cubes))(angles[0]), hessian)
    # Nothing that was made inside a transform may be found by later calls.
    torch.testing.assert_close(torch.autograd.functional.hessian(cubes, angles[0]), hessian)


COMPILED = """
import torch
from orthoscope.linalg import givens_frame

def loss(angles):
    return givens_frame(angles, 3, 2).pow(3).sum()

angles = torch.linspace(-3, 3, 3, dtype=torch.float64, requires_grad=True)
compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
torch.testing.assert_close(compiled(angles), loss(angles))
gradients = [torch.autograd.grad(function(angles), angles)[0] for function in (compiled, loss)]
torch.testing.assert_close(*gradients)
"""


@pytest.mark.slow
def test_compiles_without_a_graph_break() -> None:
    """In a process of its own: the shape checks of the tests cannot be traced."""
    finished = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def test_frames_made_without_gradients_first_can_be_trained_later(generator: torch.Generator) -> None:
    angles = random_angles(11, 10, generator=generator)
    with torch.inference_mode():
        first = givens_frame(angles, 11, 11).clone()
    angles.requires_grad_()
    frame = givens_frame(angles, 11, 11)
    assert torch.equal(frame.detach(), first)
    (gradient,) = torch.autograd.grad(frame.pow(3).sum(), angles, create_graph=True)
    gradient.square().sum().backward()
    assert angles.grad is not None


@pytest.mark.parametrize("rows", [6, 64, 200, 256, 257, 400])
def test_only_the_angles_and_the_frame_are_saved_for_the_gradient(rows: int) -> None:
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()), lambda nothing: nothing):
        givens_frame(torch.zeros(givens_count(rows, rows - 1), requires_grad=True), rows, rows)
    assert sum(kept) <= 1.5 * rows**2


def test_half_precision_and_autocast_compute_in_single(generator: torch.Generator) -> None:
    angles = random_angles(40, 39, generator=generator).bfloat16()
    frame = givens_frame(angles, 40, 40)
    assert frame.dtype == torch.bfloat16
    assert torch.equal(frame, givens_frame(angles.float(), 40, 40).bfloat16())
    single = angles.float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = givens_frame(single, 40, 40)
    assert under_autocast.dtype == torch.float32
    assert torch.equal(under_autocast, givens_frame(single, 40, 40))


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (2, 2), (3, 3), (7, 7), (33, 33), (70, 70), (5, 2), (70, 40), (9, 1)]
)
def test_every_frame_has_coordinates(rows: int, columns: int, generator: torch.Generator) -> None:
    """Haar frames of both determinants. Signs are +1, but for a last one, the determinant of a square."""
    frames = haar(rows, columns, 6, generator=generator, dtype=torch.float64)
    frames[0, :, 0] = -frames[1, :, 0]
    frames[0, :, 1:] = frames[1, :, 1:]  # the first two are mirror images, so one has determinant -1
    back, signs = there_and_back(frames)
    torch.testing.assert_close(back, frames, rtol=0, atol=1e-13)
    assert (signs[:, :-1] == 1).all()
    last = torch.det(frames) if rows == columns else torch.ones(6, dtype=torch.float64)
    torch.testing.assert_close(signs[:, -1], last)


@pytest.mark.parametrize("columns", [1, 3, 5, 6])
@pytest.mark.parametrize("negative", [(), (0,), (5,), (1, 2, 4), (0, 1, 2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize(
    "order", [(0, 1, 2, 3, 4, 5), (3, 1, 5, 0, 2, 4), (5, 4, 3, 2, 1, 0), (1, 2, 3, 4, 5, 0)], ids=str
)
def test_signed_permutations_have_coordinates(order: tuple[int, ...], negative: tuple[int, ...], columns: int) -> None:
    frame = torch.eye(6, dtype=torch.float64)[list(order)]
    frame[list(negative)] *= -1
    back, signs = there_and_back(frame[:, :columns])
    torch.testing.assert_close(back, frame[:, :columns], rtol=0, atol=1e-15)
    assert signs.prod() == (torch.det(frame).round() if columns == 6 else 1)


def test_identity_has_zero_angles() -> None:
    angles, signs = givens_coordinates(torch.eye(7, 4))
    assert angles.count_nonzero() == 0
    assert (signs == 1).all()


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (7, 3), (40, 40)])
def test_coordinates_are_those_of_elimination_entry_by_entry(
    rows: int, columns: int, generator: torch.Generator
) -> None:
    frame = haar(rows, columns, generator=generator, dtype=torch.float64)
    expected = torch.tensor(rotations.angles_of(frame, min(columns, rows - 1)), dtype=torch.float64)
    torch.testing.assert_close(givens_coordinates(frame)[0], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-3, 1e-9, 1e-17, 1e-150, 1e-200, 1e-310])
def test_tiny_entries_do_no_harm(scale: float, generator: torch.Generator) -> None:
    """Squares that underflow, and partial norms that are nothing but tiny entries."""
    frame = torch.eye(6, dtype=torch.float64).roll(3, 0)
    noise = torch.randn(6, 6, generator=generator, dtype=torch.float64).tril(-1)
    frame = torch.matrix_exp(scale * (noise - noise.mT)) @ frame + scale * (frame == 0) * (scale < 1e-16)
    back, _ = there_and_back(frame)
    torch.testing.assert_close(back, frame, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("rows", "columns", "pivots"), PARTIAL)
def test_partial_families_have_their_own_coordinates(
    rows: int, columns: int, pivots: int, generator: torch.Generator
) -> None:
    angles = random_angles(rows, pivots, 3, generator=generator) / 8
    signs = 1 - 2 * torch.randint(2, (3, 1, columns), generator=generator)
    frame = givens_frame(angles, rows, columns, pivots) * signs
    back, _ = there_and_back(frame, pivots)
    torch.testing.assert_close(back, frame, rtol=0, atol=1e-11)


def test_coordinates_keep_the_type_of_the_frame(generator: torch.Generator) -> None:
    frame = haar(40, 40, generator=generator)
    angles, signs = givens_coordinates(frame)
    assert angles.dtype == signs.dtype == torch.float32
    torch.testing.assert_close(givens_frame(angles, 40, 40) * signs, frame, rtol=0, atol=2e-6)


def test_nan_angles_show_in_the_frame_and_in_the_gradient() -> None:
    for count in range(givens_count(6, 4)):
        angles = torch.zeros(givens_count(6, 4))
        angles[count] = math.nan
        angles.requires_grad_()
        frame = givens_frame(angles, 6, 4)
        assert frame.isnan().any()
        assert torch.autograd.grad(frame.sum(), angles)[0].isnan().any()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64], ids=str)
def test_only_real_numbers_are_turned(dtype: torch.dtype) -> None:
    # What users meet without the shape checks of the tests.
    with pytest.raises(TypeError, match=r"real floating-point angles, got .*Cayley map and the exponential"):
        givens_frame.__wrapped__(torch.zeros(3, dtype=dtype), 3, 3)
    with pytest.raises(TypeError, match=r"real floating-point frames, got .*Cayley map and the exponential"):
        givens_coordinates.__wrapped__(torch.eye(3, dtype=dtype))


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match=r"4 rows with 3 pivots have 6 angles, got 5: ask givens_count"):
        givens_frame(torch.zeros(5), 4, 4)
    with pytest.raises(ValueError, match=r"no fewer rows, got 3 x 4: transpose"):
        givens_frame(torch.zeros(6), 3, 4)
    with pytest.raises(ValueError, match=r"no fewer rows, got 3 x 0"):
        givens_frame(torch.zeros(0), 3, 0)
    with pytest.raises(ValueError, match=r"a 4 x 4 frame has 0 to 3 pivots, got 4"):
        givens_frame(torch.zeros(6), 4, 4, 4)
    with pytest.raises(ValueError, match=r"no fewer rows, got 3 x 4: transpose"):
        givens_coordinates(torch.eye(3, 4))
    with pytest.raises(ValueError, match=r"not orthonormal \(max \|QᵀQ - I\| is 3\.0e\+00, .*polar_factor"):
        givens_coordinates(2 * torch.eye(3))
    with pytest.raises(ValueError, match=r"not orthonormal \(max \|QᵀQ - I\| is nan"):
        givens_coordinates(torch.full((3, 2), math.nan))


def test_frames_out_of_reach_are_refused(generator: torch.Generator) -> None:
    frame = haar(6, 6, generator=generator, dtype=torch.float64)
    for pivots in range(5):
        with pytest.raises(ValueError, match=rf"{pivots} pivots do not reach this frame.*take more pivots"):
            givens_coordinates(frame, pivots)
    assert there_and_back(frame, 5)[0].isfinite().all()


@pytest.mark.parametrize(("rows", "columns"), [(256, 256), (3000, 20), (4096, 8)])
def test_single_precision_stays_orthonormal_over_thousands_of_small_rotations(rows: int, columns: int) -> None:
    haar_angles, _ = givens_coordinates(haar(rows, columns, generator=torch.Generator().manual_seed(0)))
    for angles in (haar_angles, torch.full_like(haar_angles, 1e-3)):
        assert orthonormality_error(givens_frame(angles.float(), rows, columns)) < 3e-6
