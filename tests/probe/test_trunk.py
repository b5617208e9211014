"""The residual stream: which sums lie on it, which modules are inside branches, and its gradient, against autograd."""

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.probe import Recording, record
from probe.readings import batch, linear

DEPTH = 4


class Stream(nn.Module):
    """A stem, four blocks, a head; `step(h, block)` is how people write a block into their forward pass."""

    def __init__(self, step: Callable[[Tensor, nn.Module], Tensor]) -> None:
        super().__init__()
        self.stem, self.head = linear(seed=1), linear(out=5, seed=2)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(16), linear(seed=3 + i), nn.Tanh(), linear(seed=9 + i)) for i in range(DEPTH)
        )
        self.step = step

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = self.stem(hidden)
        for block in self.blocks:
            hidden = self.step(hidden, block)
        return self.head(hidden)


def added_in_place(hidden: Tensor, block: nn.Module) -> Tensor:
    out = block(hidden)
    out += hidden
    return out


WRITTEN: dict[str, Callable[[Tensor, nn.Module], Tensor]] = {
    "plus": lambda hidden, block: hidden + block(hidden),
    "branch first": lambda hidden, block: block(hidden) + hidden,
    "torch.add": lambda hidden, block: torch.add(hidden, block(hidden), alpha=0.5),
    "in place": added_in_place,
    "normalized after": lambda hidden, block: F.layer_norm(hidden + block(hidden), (16,)),
    "scaled skip": lambda hidden, block: 0.7 * hidden + block(hidden),
}


def branches(recording: Recording) -> list[str]:
    return [layer.name for layer in recording.layers if layer.branch]


@pytest.mark.parametrize("way", WRITTEN)
def test_sums_lie_on_the_stream_and_blocks_inside_branches(way: str) -> None:
    recording = record(Stream(WRITTEN[way]), batch())
    assert recording.trunk is not None
    assert [point.name for point in recording.trunk.points] == [f"blocks.{i}.3" for i in range(DEPTH)]
    assert [point.after for point in recording.trunk.points] == [3, 5, 7, 9]
    assert branches(recording) == [f"blocks.{i}.{j}" for i in range(DEPTH) for j in range(4)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_stream_is_found_in_every_precision(dtype: torch.dtype) -> None:
    recording = record(Stream(WRITTEN["plus"]).to(dtype), batch().to(dtype))
    single = record(Stream(WRITTEN["plus"]), batch())
    assert recording.trunk is not None
    assert single.trunk is not None
    assert [point.name for point in recording.trunk.points] == [point.name for point in single.trunk.points]


def test_gradient_and_sizes_along_the_stream_are_autograds() -> None:
    model, sums, parts = Stream(WRITTEN["plus"]), [], []

    def kept(hidden: Tensor, block: nn.Module) -> Tensor:
        branch = block(hidden)
        sums.append(hidden + branch)
        parts.append((hidden, branch))
        sums[-1].retain_grad()
        return sums[-1]

    recording = record(model, batch(4), lambda output: output.square().sum())
    model.step = kept
    model(batch(4)).square().sum().backward()
    assert recording.trunk is not None
    for point, total, (hidden, branch) in zip(recording.trunk.points, sums, parts, strict=True):
        assert point.gradient_norm == pytest.approx(float(total.grad.norm()), rel=1e-5)
        assert point.rms == pytest.approx(float(total.detach().square().mean().sqrt()), rel=1e-5)
        assert point.branch_ratio == pytest.approx(float((branch.norm() / hidden.norm()).detach()), rel=1e-5)
    growth = (sums[-1].norm() / sums[0].norm()).log().item()
    assert recording.trunk.signal_growth == pytest.approx(growth, rel=1e-5)


class Stages(nn.Module):
    """A residual network whose first block of a stage projects its skip."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        widths = [8, 8, 16, 16, 32]
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, 1 + (a != b), 1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, 1, 1))
            for a, b in itertools.pairwise(widths)
        )
        self.skips = nn.ModuleList(
            nn.Conv2d(a, b, 1, 2) if a != b else nn.Identity() for a, b in itertools.pairwise(widths)
        )

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.stem(images)
        for skip, branch in zip(self.skips, self.branches, strict=True):
            hidden = F.relu(skip(hidden) + branch(hidden), inplace=True)
        return hidden.mean((2, 3))


def test_a_projected_skip_is_no_layer_of_the_stream() -> None:
    recording = record(Stages(), torch.randn(4, 3, 16, 16))
    assert recording.trunk is not None
    assert len(recording.trunk.points) == 4
    outside = [layer.name for layer in recording.layers if layer.depth is not None and not layer.branch]
    assert outside == ["stem"]
    assert {"skips.1", "branches.1.0"} <= set(branches(recording))


def test_blocks_inside_one_long_skip_keep_their_own_stream() -> None:
    class Long(Stream):
        def forward(self, hidden: Tensor) -> Tensor:
            start = self.stem(hidden)
            hidden = start
            for block in self.blocks:
                hidden = hidden + block(hidden)
            return self.head(start + self.head_of_body(hidden))

        head_of_body = linear(seed=30)

    recording = record(Long(WRITTEN["plus"]), batch())
    assert recording.trunk is not None
    assert [point.name for point in recording.trunk.points] == [f"blocks.{i}.3" for i in range(DEPTH)]
    assert "head_of_body" not in branches(recording)


def rotated(hidden: Tensor, block: nn.Module) -> Tensor:
    out = block(hidden)
    return out * 0.6 + out.roll(1, -1) * 0.8


def sum_of_two(hidden: Tensor, block: nn.Module) -> Tensor:
    return block(hidden) + block(hidden)


def with_constant(hidden: Tensor, block: nn.Module) -> Tensor:
    return block(hidden) + torch.ones_like(hidden)


@pytest.mark.parametrize("step", [rotated, sum_of_two, with_constant, lambda hidden, block: block(hidden)])
def test_other_sums_make_no_stream(step: Callable[[Tensor, nn.Module], Tensor]) -> None:
    recording = record(Stream(step), batch())
    assert recording.trunk is None
    assert branches(recording) == []


def test_parallel_branches_are_added_to_one_stream() -> None:
    other = nn.ModuleList(linear(seed=40 + i) for i in range(DEPTH))

    def parallel(model: Sequence[nn.Module]) -> Callable[[Tensor, nn.Module], Tensor]:
        turn = iter(list(model) * 2)
        return lambda hidden, block: next(turn)(hidden) + block(hidden) + hidden

    recording = record(Stream(parallel(other)), batch())
    assert recording.trunk is not None
    assert len(recording.trunk.points) == DEPTH
