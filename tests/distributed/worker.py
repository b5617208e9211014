"""One rank of everything the tests compare: `worker.py FOLDER [CHECKPOINTS]` saves `rank<r>.pt`.

One launch for everything, because starting torch on every rank takes longer than most of it.
"""

import faulthandler
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from checkpoints import restored, state_of
from diagnoses import diagnoses
from diagnosis_cases import CASES_OF
from exchanges import exchange_errors
from joining import join, threads_of_groups
from leaving import leave
from tensor_parallel import tensor_parallel_training
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from training import HALF, STEPS, full, momenta_of, network, optimizer_of, parameters_of, prepared, train
from wire import WireBytes

from orthoscope.init import SCHEMES, initialize_
from orthoscope.init.weights import whole
from orthoscope.optim.muon.optimizer import Muon


def trained(layout: str, folder: Path) -> dict[str, Any]:
    """Parameters after all steps, momenta halfway, where a checkpoint is written, and the bytes of the last step."""
    model = prepared(layout, network())
    optimizer = optimizer_of(model, dist.group.WORLD if layout == "ddp" else None)
    train(model, optimizer, HALF)
    checkpoint.save(state_of(model, optimizer), checkpoint_id=folder / f"{layout}{dist.get_world_size()}")
    halfway = parameters_of(model), momenta_of(model, optimizer)
    train(model, optimizer, STEPS - HALF)
    end = parameters_of(model)
    with WireBytes() as wire:
        optimizer.step()
    return {"halfway": halfway, "end": end, "sent": dict(wire.sent), "calls": dict(wire.calls)}


def resumed(layout: str, saved: Path) -> dict[str, Any]:
    """As `trained`, from a checkpoint of another layout or number of ranks, into a model with other weights."""
    model = prepared(layout, network(seed=7))
    optimizer = optimizer_of(model, dist.group.WORLD if layout == "ddp" else None)
    restored(model, optimizer, saved)
    halfway = parameters_of(model), momenta_of(model, optimizer)
    train(model, optimizer, STEPS - HALF)
    return {"halfway": halfway, "end": parameters_of(model)}


def disagreements() -> dict[str, str]:
    """What is raised when ranks lack gradients of different parameters."""
    is_last, group = dist.get_rank() == dist.get_world_size() - 1, dist.group.WORLD
    alike, sharded = (nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(2))
    fully_shard(sharded, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return {
        "one": disagreement(optimizer_of(network(), group), {2} if is_last else set()),
        "all": disagreement(optimizer_of(network(), group), set(range(7)) if is_last else set()),
        "another of that shape": disagreement(Muon(alike.parameters(), process_group=group), {int(is_last)}),
        "another, sharded": disagreement(Muon(sharded.parameters()), {int(is_last)}),
    }


def disagreement(optimizer: Muon, missing: set[int]) -> str:
    """What is raised when this rank has no gradient for some matrices."""
    parameters = [p for group in optimizer.param_groups if group["use_muon"] for p in group["params"]]
    for place, parameter in enumerate(parameters):
        parameter.grad = None if place in missing else torch.ones_like(parameter)
    try:
        optimizer.step()
    except RuntimeError as error:
        return str(error)
    return ""


def initialized(scheme: str) -> list[torch.Tensor]:
    """Weights of a sharded model created on the meta device; only the seed of rank 0 counts."""
    rank = dist.get_rank()
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(10, 7), nn.Conv2d(6, 9, 3, groups=3), nn.ConvTranspose2d(5, 4, 2))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    model.to_empty(device="cpu")
    torch.manual_seed(100 + rank)
    initialize_(model, scheme, generator=torch.Generator().manual_seed(5 if rank == 0 else 100 + rank))
    return [full(whole(parameter)) for parameter in model.parameters()]


def main(folder: Path, checkpoints: Path) -> None:
    """Compute and save all results of two or four ranks; `checkpoints` is the folder of two ranks."""
    ranks = dist.get_world_size()
    results: dict[str, Any] = {}
    for layout in ("ddp", "fsdp") if ranks == 2 else ("ddp", "fsdp", "hsdp"):
        results[layout] = trained(layout, folder)
    results["exchange"] = exchange_errors()
    results["missing"] = disagreements()
    if ranks == 2:
        results["init"] = {scheme: initialized(scheme) for scheme in SCHEMES}
        results["fsdp2 to ddp"] = resumed("ddp", checkpoints / "fsdp2")
        results["ddp2 to fsdp"] = resumed("fsdp", checkpoints / "ddp2")
    if ranks == 4:
        results["tensor parallel"] = tensor_parallel_training()
        results["fsdp2 to fsdp"] = resumed("fsdp", checkpoints / "fsdp2")
        results["ddp2 to hsdp"] = resumed("hsdp", checkpoints / "ddp2")
    results["diagnosis"] = diagnoses(CASES_OF[ranks])
    results["threads"] = threads_of_groups()
    torch.save(results, folder / f"rank{dist.get_rank()}.pt")


if __name__ == "__main__":
    # A rank that waits for a dead one exits by itself.
    faulthandler.dump_traceback_later(280, exit=True)
    torch.set_num_threads(1)
    join()
    main(Path(sys.argv[1]), Path(sys.argv[-1]))
    leave()
