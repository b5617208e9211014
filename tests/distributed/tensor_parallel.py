"""A network whose layers are split by columns and rows and then sharded: placements that need a gather."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from training import parameters_of

from orthoscope.optim.muon.optimizer import Muon


def tensor_parallel_training() -> dict[str, Tensor]:
    """Parameters after five steps, on four ranks as a 2 x 2 mesh or in one process."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 8), nn.Tanh()).double()
    if dist.is_initialized():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
        parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(model, mesh=mesh["data"])
    optimizer = Muon(model.parameters())
    inputs = torch.randn(16, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for _ in range(5):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    return parameters_of(model)
