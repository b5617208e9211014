"""Peak memory of a step: on one process that of one stack, on a fake process group the predicted one."""

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

from orthoscope.optim import Muon
from orthoscope.optim.muon import optimizer as module
from orthoscope.optim.muon.cost import muon_cost
from orthoscope.optim.muon.distributed.splits import chunk_sizes


class HeldBytes(TorchDispatchMode):
    """Peak number of bytes in storages that are allocated inside of the context."""

    def __init__(self, before: Sequence[Tensor]) -> None:
        super().__init__()
        self.held = self.peak = 0
        self.known = weakref.WeakSet(tensor.untyped_storage() for tensor in before)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            return NotImplemented  # the operations on its slices are dispatched next
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
    """One rank of a fake process group of 8; one group for all tests, since torch caches the mesh of an operation."""
    dist.init_process_group("fake", store=FakeStore(), rank=3, world_size=8)
    yield 3
    dist.destroy_process_group()


SHAPES = [(1024, 1024)] * 8 + [(2048, 1024), (37, 1024), (64, 3, 7, 7)]


@pytest.fixture(autouse=True)
def no_work_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method without temporaries of its own."""
    monkeypatch.setattr(module, "orthogonalize", lambda matrix, *args, **options: matrix.clone())


def peak_of_second_step(optimizer: Muon, before: Sequence[Tensor]) -> int:
    """The second step, when torch has cached how the results of all operations are sharded."""
    optimizer.step()
    with HeldBytes(before) as memory:
        optimizer.step()
    assert memory.held == 0, "nothing is kept after the step"
    return memory.peak


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["ddp", "fsdp", "hsdp"])
def test_peak_memory_on_many_ranks_is_the_predicted_one(layout: str, fake_rank: int) -> None:
    mesh = init_device_mesh("cpu", (2, 4) if layout == "hsdp" else (8,))
    placements = [Replicate(), Shard(0)] if layout == "hsdp" else [Shard(0)]
    local: list[Tensor] = []

    def tensor(shape: tuple[int, ...]) -> Tensor:
        if layout == "ddp":
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
            optimizer.state[parameter]["momentum_buffer"] = tensor(shape)
        peak = peak_of_second_step(optimizer, local)
    cost = muon_cost(SHAPES, layout=layout, ranks=8, shards=4 if layout == "hsdp" else None)
    assert peak == cost.temporary[fake_rank]


def test_parameters_sharded_over_a_single_rank_are_moved_stack_by_stack(fake_rank: int) -> None:
    mesh = init_device_mesh("cpu", (8, 1), mesh_dim_names=("data", "shard"))["shard"]
    local: list[Tensor] = []

    def tensor(shape: tuple[int, ...]) -> Tensor:
        local.append(torch.empty(shape))
        return DTensor.from_local(local[-1], mesh, [Shard(0)], run_check=False)

    with FakeTensorMode():
        parameters = [nn.Parameter(tensor(shape)) for shape in SHAPES]
        optimizer = Muon(parameters)
        for parameter, shape in zip(parameters, SHAPES, strict=True):
            parameter.grad = tensor(shape)
            optimizer.state[parameter]["momentum_buffer"] = tensor(shape)
        assert peak_of_second_step(optimizer, local) == 2 * 2048 * 1024 * 4


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_one_process_holds_the_updates_and_results_of_one_stack(device: str) -> None:
    """On an accelerator the eight equal matrices are one stack, which is copied; on a CPU a matrix is alone."""
    with FakeTensorMode():
        parameters = [nn.Parameter(torch.empty(shape, device=device)) for shape in SHAPES]
        for parameter in parameters:
            parameter.grad = torch.empty_like(parameter)
        optimizer = Muon(parameters)
        peak = peak_of_second_step(optimizer, [])
    assert peak == {"cpu": 2 * 2048 * 1024 * 4, "cuda": 3 * 8 * 1024 * 1024 * 4}[device]
    assert device == "cpu" or (peak,) == muon_cost(SHAPES, ranks=1).temporary
    assert 4 * sum(parameter.numel() for parameter in parameters) > 40e6, "all updates together would be more"
