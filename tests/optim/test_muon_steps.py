"""A step of Muon is its formula, matrix by matrix, and that of `torch.optim.Muon` with the same options."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import _muon as torch_muon

from optim.optimizers import gaussian, quintic, walk
from orthoscope.optim import MatrixView, Muon
from orthoscope.optim.muon.views import SCALES


def parameter(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Parameter:
    return nn.Parameter(gaussian(*shape, seed=seed, dtype=dtype))


SHAPES = [(6, 6), (9, 4), (3, 8), (6, 6), (1, 5)]


@pytest.mark.slow
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("scale", ["original", "match_rms_adamw"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_fifty_steps_are_those_of_torch(
    nesterov: bool, scale: str, weight_decay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In double precision: torch's own products are in bfloat16, where two correct results differ."""
    monkeypatch.setattr(torch_muon, "_zeropower_via_newtonschulz", quintic)
    ours, theirs = ([parameter(*shape, seed=i) for i, shape in enumerate(SHAPES)] for _ in range(2))
    options: dict[str, Any] = {"lr": 0.03, "momentum": 0.9, "nesterov": nesterov, "weight_decay": weight_decay}
    walk(Muon(ours, scale=scale, method="keller", **options), 50)
    walk(torch.optim.Muon(theirs, adjust_lr_fn=scale, **options), 50)
    for place, (own, their) in enumerate(zip(ours, theirs, strict=True)):
        torch.testing.assert_close(own.detach(), their.detach(), rtol=0, atol=1e-11)
        assert (own - parameter(*own.shape, seed=place)).abs().max() > 0.1


def test_one_step_agrees_with_torchs_muon_to_bfloat16_precision() -> None:
    ours, theirs = parameter(16, 40, dtype=torch.float32), parameter(16, 40, dtype=torch.float32)
    walk(Muon([ours], lr=1.0, method="keller"), 1)
    walk(torch.optim.Muon([theirs], lr=1.0, weight_decay=0.0), 1)
    torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=0, atol=0.02)
    assert (ours - parameter(16, 40, dtype=torch.float32)).abs().max() > 0.2


def momentum_after_two_steps(build: Any, **options: Any) -> Tensor:
    weight = nn.Parameter(torch.zeros(64, 32, dtype=torch.bfloat16))
    optimizer = build([weight], lr=0.01, momentum=0.9, nesterov=False, **options)
    for seed in range(2):
        weight.grad = gaussian(64, 32, seed=seed).bfloat16()
        optimizer.step()
    buffer: Tensor = optimizer.state[weight]["momentum_buffer"]
    return buffer.double()


def test_bfloat16_parameters_keep_their_momentum_without_nesterov() -> None:
    """torch 2.13 normalizes the momentum in place, because `.to` of the same type does not copy."""
    expected = 0.09 * gaussian(64, 32, seed=0) + 0.1 * gaussian(64, 32, seed=1)
    ours = momentum_after_two_steps(Muon)
    assert (ours - expected).norm() < 0.01 * expected.norm()
    theirs = momentum_after_two_steps(torch.optim.Muon)
    assert (theirs - expected).norm() > 0.3 * expected.norm(), "torch has corrected this: say so in the docs"


@pytest.mark.parametrize("nesterov", [True, False])
def test_gradients_may_have_a_wider_type_than_their_parameters(nesterov: bool) -> None:
    """As after `p.grad_dtype = torch.float32`, which `torch.optim.Muon` takes too; the bias goes to AdamW."""
    wide, narrow = ([nn.Parameter(torch.ones(8, 6).bfloat16()), nn.Parameter(torch.ones(6).bfloat16())] for _ in "ab")
    for weight in wide:
        weight.grad_dtype = torch.float32
    ours, reference = (Muon(weights, nesterov=nesterov, adamw_lr=0.1) for weights in (wide, narrow))
    for seed in range(3):
        for one, two in zip(wide, narrow, strict=True):
            gradient = gaussian(*one.shape, seed=seed, dtype=torch.float32)
            one.grad, two.grad = gradient.clone(), gradient.bfloat16()
        ours.step()
        reference.step()
        for one in wide:
            assert torch.equal(one.grad, gaussian(*one.shape, seed=seed, dtype=torch.float32))  # type: ignore[arg-type]
    for one, two in zip(wide, narrow, strict=True):
        assert torch.equal(one, two)
        assert not torch.equal(one, torch.ones_like(one))


def polar(matrix: Tensor) -> Tensor:
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    return left @ right


def matrices_of(kind: str, tensor: Tensor) -> list[Tensor]:
    """Every matrix (out, in) as a view of a tensor, slice by slice."""
    if kind == "convolution":
        return [tensor.view(tensor.shape[0], -1)]
    if kind == "grouped":
        return [block.reshape(block.shape[0], -1) for block in tensor.chunk(2)]
    if kind == "transposed":  # stored (in, out, k)
        return [tensor[i : i + 3].transpose(0, 1).reshape(2, -1) for i in (0, 3)]
    if kind == "fused":
        return list(tensor.chunk(3))
    if kind == "fused, stored (in, out)":
        return [block.T for block in tensor.chunk(3, dim=1)]
    if kind == "experts":
        return [tensor[i, j] for i in range(tensor.shape[0]) for j in range(tensor.shape[1])]
    return [tensor]


VIEWS: dict[str, tuple[tuple[int, ...], MatrixView]] = {
    "matrix": ((7, 4), MatrixView()),
    "convolution": ((5, 3, 2, 2), MatrixView()),
    "grouped": ((6, 2, 3), MatrixView(parts=2)),
    "transposed": ((6, 2, 3), MatrixView(groups=2, transposed=True)),
    "fused": ((12, 4), MatrixView(parts=3)),
    "fused, stored (in, out)": ((4, 15), MatrixView(parts=3, transposed=True)),
    "experts": ((2, 3, 5, 4), MatrixView(batched=True)),
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", VIEWS)
def test_every_matrix_of_a_parameter_moves_by_its_own_polar_factor_and_scale(kind: str, scale: str) -> None:
    shape, view = VIEWS[kind]
    weight, gradient = parameter(*shape), gaussian(*shape, seed=1)
    weight.grad = gradient.clone()
    Muon([{"params": [weight], "views": view}], lr=0.1, weight_decay=0.5, scale=scale, method="exact").step()
    before, after = matrices_of(kind, gaussian(*shape)), matrices_of(kind, weight.detach())
    for old, new, direction in zip(before, after, matrices_of(kind, gradient), strict=True):
        rows, columns = old.shape
        factor = {
            "original": max(1, rows / columns) ** 0.5,
            "match_rms_adamw": 0.2 * max(rows, columns) ** 0.5,
            "rms_to_rms": (rows / columns) ** 0.5,
            "none": 1.0,
        }[scale]
        torch.testing.assert_close(new, 0.95 * old - 0.1 * factor * polar(direction), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(40, 10), (10, 40), (20, 20), (12, 4, 3, 3)], ids=str)
def test_every_scale_fixes_its_norm_of_the_update(shape: tuple[int, ...]) -> None:
    def update(scale: str) -> Tensor:
        weight = nn.Parameter(torch.zeros(shape, dtype=torch.float64))
        weight.grad = gaussian(*shape)
        Muon([weight], lr=0.3, scale=scale, method="exact").step()
        return weight.detach().flatten(1)

    rows, columns = shape[0], math.prod(shape[1:])
    rms = update("match_rms_adamw").square().mean().sqrt()
    torch.testing.assert_close(rms.item(), 0.2 * 0.3, rtol=1e-9, atol=0)
    # The largest ratio of root mean squares of output and input, by the power method.
    step, x = update("rms_to_rms"), gaussian(columns)
    for _ in range(20):
        x = step.T @ (step @ x)
    ratio = (step @ x).square().mean().sqrt() / x.square().mean().sqrt()
    torch.testing.assert_close(ratio.item(), 0.3, rtol=1e-9, atol=0)
    torch.testing.assert_close(torch.linalg.matrix_norm(update("none"), 2).item(), 0.3, rtol=1e-9, atol=0)
    spectral = torch.linalg.matrix_norm(update("original"), 2).item()
    torch.testing.assert_close(spectral, 0.3 * max(1, rows / columns) ** 0.5, rtol=1e-9, atol=0)


@pytest.mark.slow
def test_many_parameters_move_as_each_would_alone() -> None:
    """Several stacks of plain and of fused parameters, and experts that are more than one stack."""
    shapes = [(32, 32)] * 300 + [(96, 32)] * 3 + [(300, 32, 32), (3, 5), (5, 3)]
    views = [MatrixView()] * 300 + [MatrixView(parts=3)] * 3 + [MatrixView(batched=True)] + [MatrixView()] * 2
    together = [parameter(*shape, seed=i, dtype=torch.float32) for i, shape in enumerate(shapes)]
    walk(Muon([{"params": together, "views": views}], lr=0.1), 1)
    generator = torch.Generator().manual_seed(0)
    for place, (shape, view) in enumerate(zip(shapes, views, strict=True)):
        alone = parameter(*shape, seed=place, dtype=torch.float32)
        alone.grad = torch.randn(shape, generator=generator, dtype=torch.float64).float()
        Muon([{"params": [alone], "views": view}], lr=0.1).step()
        torch.testing.assert_close(together[place].detach(), alone.detach(), rtol=0, atol=1e-5)


def test_double_precision_parameters_are_computed_in_double_precision() -> None:
    weight = nn.Parameter(torch.zeros(12, 9, dtype=torch.float64))
    weight.grad = gaussian(12, 9)
    Muon([weight], lr=1.0, scale="none", method="keller").step()
    expected = quintic(gaussian(12, 9), (3.4445, -4.7750, 2.0315), 5, 1e-7)
    torch.testing.assert_close(weight.detach(), -expected, rtol=0, atol=1e-13)


def test_products_are_computed_in_the_requested_type() -> None:
    def direction(dtype: torch.dtype | None) -> Tensor:
        weight = nn.Parameter(torch.zeros(24, 16))
        weight.grad = gaussian(24, 16, dtype=torch.float32)
        Muon([weight], lr=1.0, scale="none", method="keller", dtype=dtype).step()
        return weight.detach()

    single, half, double = direction(None), direction(torch.bfloat16), direction(torch.float64)
    assert single.dtype == half.dtype == torch.float32
    assert 1e-4 < (single - half).abs().max() < 0.05
    assert 0 < (single - double).abs().max() < 1e-5
