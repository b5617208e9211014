"""Adaptive clipping against a slow reference and timm's; zero, exploded and missing gradients."""

import importlib
import math

import pytest
import torch
from torch import Tensor, nn

from orthoscope.models.targets.timm_zoo import repair_torchvision
from orthoscope.optim import clip_adaptively_


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model_with_gradients(dtype: torch.dtype = torch.float64, seed: int = 0) -> nn.Module:
    """Every kind of parameter, with gradients around the limit, and one without."""
    generator = seeded(seed)
    model = nn.ModuleDict(
        {
            "linear": nn.Linear(5, 7),
            "conv": nn.Conv2d(4, 6, 3, groups=2),
            "norm": nn.LayerNorm(3),
            "frozen": nn.Linear(2, 2),
        }
    ).to(dtype)
    model.register_parameter("scalar", nn.Parameter(torch.tensor(0.3, dtype=dtype)))
    for name, weight in model.named_parameters():
        if not name.startswith("frozen"):
            scale = torch.rand(weight.shape[:1] or (1,), generator=generator).to(dtype)
            noise = torch.randn(weight.shape, generator=generator).to(dtype)
            weight.grad = noise * (scale.reshape(-1, *[1] * (weight.ndim - 1)) if weight.ndim else scale[0])
    return model


def slow_twin(weight: Tensor, gradient: Tensor, clipping: float, eps: float, per: str) -> tuple[Tensor, list[bool]]:
    """(A.21) and its form for units, entry by entry."""
    if per == "layer" or weight.ndim < 2:
        parts = [(weight.flatten().tolist(), gradient.flatten().tolist())]
    else:
        parts = [(w.flatten().tolist(), g.flatten().tolist()) for w, g in zip(weight, gradient, strict=True)]
    entries: list[float] = []
    clipped = []
    for unit, slope in parts:
        longest = clipping * max(math.sqrt(math.fsum(x * x for x in unit)), eps)
        length = math.sqrt(math.fsum(x * x for x in slope))
        clipped.append(length > longest)
        entries += [x * longest / length if clipped[-1] else x for x in slope]
    return torch.tensor(entries, dtype=gradient.dtype).reshape(gradient.shape), clipped


@pytest.mark.parametrize("per", ["unit", "layer"])
@pytest.mark.parametrize(("clipping", "eps"), [(0.5, 1e-3), (0.1, 1e-2), (2.0, 1.0)])
def test_clipped_gradients_agree_with_a_slow_reference(per: str, clipping: float, eps: float) -> None:
    model = model_with_gradients()
    expected, clipped = {}, []
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            expected[name], found = slow_twin(weight.detach(), weight.grad, clipping, eps, per)
            clipped += found
    share = clip_adaptively_(model, clipping, eps, per)
    for name, gradient in expected.items():
        torch.testing.assert_close(model.get_parameter(name).grad, gradient, rtol=1e-12, atol=0)
    assert float(share) == pytest.approx(sum(clipped) / len(clipped))
    assert clipping < 2 or 0 < float(share) < 1, "this case must have both kinds"
    assert all(weight.grad is None for weight in model["frozen"].parameters())


@pytest.mark.parametrize("clipping", [0.01, 0.5])
def test_units_are_clipped_as_by_timm(clipping: float) -> None:
    repair_torchvision()
    agc = importlib.import_module("timm.utils.agc")
    ours, theirs = model_with_gradients(torch.float32), model_with_gradients(torch.float32)
    theirs.load_state_dict(ours.state_dict())
    clip_adaptively_(ours, clipping)
    agc.adaptive_clip_grad(theirs.parameters(), clip_factor=clipping)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad)


def test_short_and_zero_gradients_are_unchanged_bit_for_bit() -> None:
    weight = nn.Parameter(torch.randn(4, 3, generator=seeded(0)))
    weight.grad = 1e-6 * torch.randn(4, 3, generator=seeded(1))
    weight.grad[2] = 0
    before = weight.grad.clone()
    assert float(clip_adaptively_(weight)) == 0
    assert torch.equal(weight.grad, before)


def test_a_gradient_that_is_not_finite_is_left_and_does_not_affect_others() -> None:
    weight = nn.Parameter(torch.ones(4, 3))
    weight.grad = torch.ones(4, 3)
    weight.grad[0, 0], weight.grad[1, 0] = math.nan, math.inf
    share = clip_adaptively_([weight], clipping=0.1)
    assert weight.grad[0].isnan().tolist() == [True, False, False]
    assert weight.grad[1].tolist() == [math.inf, 1.0, 1.0]
    torch.testing.assert_close(weight.grad[2:], torch.full((2, 3), 0.1))
    assert float(share) == 0.5


@pytest.mark.parametrize(("dtype", "huge"), [(torch.float32, 1e30), (torch.bfloat16, 1e30), (torch.float16, 6e4)])
def test_a_gradient_whose_square_overflows_is_clipped(dtype: torch.dtype, huge: float) -> None:
    weight = nn.Parameter(torch.ones(2, 4, dtype=dtype))
    weight.grad = torch.full((2, 4), huge, dtype=dtype)
    assert float(clip_adaptively_(weight, clipping=0.5)) == 1
    # bfloat16 has eight bits; the factor of float16 is itself a small number, of few bits.
    torch.testing.assert_close(weight.grad.float(), torch.full((2, 4), 0.5), rtol=0.02, atol=0)


def test_invalid_arguments_are_refused_and_a_model_without_gradients_is_accepted() -> None:
    assert float(clip_adaptively_(nn.Linear(2, 2))) == 0
    weight = nn.Parameter(torch.ones(2, 2))
    weight.grad = torch.ones(2, 2)
    with pytest.raises(ValueError, match=r"must be positive, got 0\.0 and 0\.001"):
        clip_adaptively_(weight, clipping=0.0)
    # Where types are checked as it runs, as in tests, another sentence says so.
    with pytest.raises(Exception, match=r"per must be 'unit' or 'layer'|Type-check error"):
        clip_adaptively_(weight, per="row")
    embedding = nn.Embedding(3, 2, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match=r"a gradient of shape \(3, 2\) is sparse, .* nothing was changed"):
        clip_adaptively_([weight, *embedding.parameters()], clipping=0.1)
    assert torch.equal(weight.grad, torch.ones(2, 2))
