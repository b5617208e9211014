"""The memory of a step: what ranks that do not exist hold at their worst moment is what the plan says."""

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from orthoscope.optim import MatrixView, Muon
from orthoscope.optim import muon as muon_module
from orthoscope.optim.plan import muon_plan
from orthoscope.optim.sharding.splits import chunk_sizes


class HeldBytes(TorchDispatchMode):
    """The largest number of bytes in storages that were made inside and live at the same time."""

    def __init__(self, before: Sequence[Tensor]) -> None:
        super().__init__()
        self.held = self.peak = 0
        self.known = weakref.WeakSet(tensor.untyped_storage() for tensor in before)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            return NotImplemented  # its slices come by in their turn
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor) and tensor.untyped_storage() not in self.known:
                storage = tensor.untyped_storage()
                self.known.add(storage)
                self.held += storage.nbytes()
                weakref.finalize(storage, self._free, storage.nbytes())
        self.peak = max(self.peak, self.held)
        return made

    def _free(self, size: int) -> None:
        self.held -= size


@pytest.fixture(scope="module")
def fake_rank() -> Iterator[int]:
    """One of 8 ranks that do not exist; for all tests, since torch remembers the mesh of an operation."""
    dist.init_process_group("fake", store=FakeStore(), rank=3, world_size=8)
    yield 3
    dist.destroy_process_group()


SHAPES = [(1024, 1024)] * 8 + [(2048, 1024), (37, 1024), (64, 3, 7, 7)]


def copies(updates: list[Tensor], views: list[MatrixView], **options: object) -> list[Tensor]:
    """A method without work space."""
    return [update.clone() for update in updates]


@pytest.mark.parametrize("layout", ["one process", "ddp", "fsdp", "hsdp"])
def test_a_step_holds_what_the_plan_says(layout: str, fake_rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(muon_module, "orthogonalized_updates", copies)
    mesh = init_device_mesh("cpu", (2, 4) if layout == "hsdp" else (8,))
    placements = [Replicate(), Shard(0)] if layout == "hsdp" else [Shard(0)]
    local: list[Tensor] = []

    def tensor(shape: tuple[int, ...]) -> Tensor:
        if layout in ("one process", "ddp"):
            local.append(torch.empty(shape))
            return local[-1]
        rows = chunk_sizes(shape[0], mesh.size(mesh.ndim - 1))[mesh.get_local_rank(mesh.ndim - 1)]
        local.append(torch.empty(rows, *shape[1:]))
        full = torch.empty(shape, device="meta")
        return DTensor.from_local(local[-1], mesh, placements, run_check=False, shape=full.shape, stride=full.stride())

    with FakeTensorMode():
        parameters = [nn.Parameter(tensor(shape)) for shape in SHAPES]
        optimizer = Muon(parameters, process_group=dist.group.WORLD if layout == "ddp" else None)
        for parameter, shape in zip(parameters, SHAPES, strict=True):
            parameter.grad = tensor(shape)
            buffer = tensor(shape)
            optimizer.state[parameter]["momentum_buffer"] = buffer
        optimizer.step()  # now torch knows how the results of all operations are sharded
        with HeldBytes(local) as memory:
            optimizer.step()
    one = layout == "one process"
    shards = 4 if layout == "hsdp" else None
    plan = muon_plan(SHAPES, layout="ddp" if one else layout, ranks=1 if one else 8, shards=shards)
    planned = plan.temporary[0 if one else fake_rank]
    assert planned == memory.peak
    assert memory.held == 0, "nothing is left after the step"
