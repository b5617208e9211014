"""The network trained in one process and on many: shapes that do not divide evenly, convolutions, fused projection."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from orthoscope.optim.muon.groups import muon_parameter_groups
from orthoscope.optim.muon.optimizer import Muon
from orthoscope.optim.muon.views import MatrixView

SAMPLES = 96
STEPS = 20
HALF = STEPS // 2  # where checkpoints are written


class Network(nn.Module):
    """Few sizes are divisible by 2 or 4; on 4 ranks, shards of `thin` and `gate` are empty."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 7, 3)
        self.grouped = nn.Conv2d(7, 14, 1, groups=7)
        self.first = nn.Linear(126, 17)
        self.thin = nn.Linear(17, 3)  # 3 x 17
        self.wide = nn.Linear(3, 9)
        self.gate = nn.Linear(9, 1)  # 1 x 9
        self.qkv = nn.Linear(9, 27)
        self.head = nn.Linear(9, 5)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.grouped(self.convolution(images).tanh()).flatten(1)
        hidden = self.wide(self.thin(self.first(hidden).tanh()).tanh())
        query, key, value = self.qkv(hidden * self.gate(hidden).sigmoid()).chunk(3, -1)
        return self.head(query.tanh() * key + value)


def network(seed: int = 0) -> Network:
    torch.manual_seed(seed)
    return Network().double()


def optimizer_of(model: nn.Module, group: dist.ProcessGroup | None = None) -> Muon:
    groups = muon_parameter_groups(model, views={"*qkv": MatrixView(parts=3)})
    return Muon(groups, lr=0.02, weight_decay=0.1, adamw_lr=0.01, process_group=group)


def prepared(layout: str, model: Network) -> nn.Module:
    """The model as DDP, FSDP2 on all ranks, HSDP on two by half of them, or as it is."""
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    if layout == "ddp":
        return DistributedDataParallel(model)
    if layout == "fsdp":
        return _sharded(model, init_device_mesh("cpu", (ranks,)))
    if layout == "hsdp":
        return _sharded(model, init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard")))
    assert layout == "plain", layout
    return model


def _sharded(model: Network, mesh: DeviceMesh) -> nn.Module:
    for layer in (model.first, model.qkv):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def batch() -> tuple[Tensor, Tensor]:
    """This rank's part of the batch."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(SAMPLES, 2, 5, 5, generator=generator, dtype=torch.float64)
    targets = torch.randn(SAMPLES, 5, generator=generator, dtype=torch.float64)
    ranks, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    return images.chunk(ranks)[rank], targets.chunk(ranks)[rank]


def train(model: nn.Module, optimizer: Muon, steps: int = STEPS) -> None:
    images, targets = batch()
    for _ in range(steps):
        optimizer.zero_grad()
        (model(images) - targets).square().mean().backward()
        optimizer.step()


def full(tensor: Tensor) -> Tensor:
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().clone()


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    return {name.removeprefix("module."): full(parameter) for name, parameter in model.named_parameters()}


def momenta_of(model: nn.Module, optimizer: Muon) -> dict[str, Tensor]:
    return {
        name.removeprefix("module."): full(optimizer.state[parameter]["momentum_buffer"])
        for name, parameter in model.named_parameters()
        if "momentum_buffer" in optimizer.state[parameter]
    }
