"""Diagnoses on every rank under each wrapper, beside those of one process."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from diagnosis_cases import CASES, Attention, Branching, Case, Residual, differences
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from orthoscope import diagnose

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


def sharded(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Blocks and matrices one by one, and the rest with the root: weights that do not divide evenly, norms, biases."""
    for module in list(model.modules()):
        if isinstance(module, (Attention, Residual)) or (isinstance(module, nn.Linear) and module.out_features == 17):
            fully_shard(module, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def wrappers(ranks: int) -> dict[str, Callable[[nn.Module], nn.Module]]:
    if ranks == 4:
        square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        return {"HSDP": lambda model: sharded(model, square)}
    line = init_device_mesh("cpu", (ranks,))
    return {"DDP": DistributedDataParallel, "FSDP": lambda model: sharded(model, line)}


def local(tensor: Tensor | None) -> Tensor | None:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def traces(model: nn.Module) -> list[Any]:
    """What a diagnosis must leave alone: objects, their values, and how many hooks there are."""
    tensors = [*model.parameters(), *model.buffers()]
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks)) for m in model.modules()]
    values = [local(tensor.detach()).clone() for tensor in tensors]
    return [list(map(id, tensors)), [id(t.grad) for t in tensors], hooks, [m.training for m in model.modules()], values]


def same(before: list[Any], after: list[Any]) -> bool:
    return before[:-1] == after[:-1] and all(map(torch.equal, before[-1], after[-1]))


def step(model: nn.Module, batch: Any, optimizer: torch.optim.Optimizer) -> None:
    inputs = batch[0] if isinstance(batch, tuple) else batch
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()


def compared(case: Case, wrap: Callable[[nn.Module], nn.Module]) -> str:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    options = {"max_samples": case.max_samples}
    wanted = diagnose(case.model(), case.whole(ranks), case.loss, **options)
    model = wrap(case.model())
    before = traces(model)
    found = diagnose(model, case.parts(ranks)[rank], case.loss, **options)
    if not same(before, traces(model)):
        return "the model was changed"
    differing = differences(found, wanted, TOLERANCE[case.dtype])
    everybody: list[Any] = [None] * ranks
    dist.all_gather_object(everybody, [layer.gap for layer in found.layers if layer.sample_view])
    if any(other != everybody[0] for other in everybody):
        return "the ranks found different numbers"
    return f"{len(differing)} differ, {differing[:12]}" if differing else "same"


def trained(case: Case, wrap: Callable[[nn.Module], nn.Module]) -> str:
    """Two steps of training come out the same to the last bit with a diagnosis before, between and after them."""
    part = case.parts(dist.get_world_size())[dist.get_rank()]
    ends = []
    for diagnosed in (False, True):
        model = wrap(case.model())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            if diagnosed:
                diagnose(model, part, case.loss)
            step(model, part, optimizer)
            before = gradients(model)
            with torch.no_grad():
                model(part[0])  # leaves FSDP's root whole
            if diagnosed:
                diagnose(model, part, case.loss)
                if not all(
                    a is b and torch.equal(c, d) for (a, c), (b, d) in zip(before, gradients(model), strict=True)
                ):
                    return "the gradients were changed"
        with torch.no_grad():
            model(part[0])  # and a state dictionary must be of shards all the same
        ends.append([local(value).clone() for value in model.state_dict().values()])
    return "same" if all(map(torch.equal, *ends)) else "the training was changed"


def gradients(model: nn.Module) -> list[tuple[Tensor, Tensor]]:
    return [(p.grad, local(p.grad).clone()) for p in model.parameters() if p.grad is not None]


def failing(wrap: Callable[[nn.Module], nn.Module]) -> str:
    """A rank whose part cannot be read, and one whose loss fails: every rank raises, and a good call still works."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    case = CASES["perceptron with a loss"]
    model, part = wrap(case.model()), case.parts(ranks)[rank]
    before = traces(model)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return output if rank == 1 else nn.functional.cross_entropy(output, target)

    said = [refusal(model, "no batch" if rank == 1 else part, case.loss), refusal(model, part, loss)]
    expected = (
        ["a batch is a tensor", "the loss must be one number"] if rank == 1 else ["rank 1 failed on its part"] * 2
    )
    if isinstance(model, DistributedDataParallel):  # FSDP's own exchanges wait for ever for a rank that is not there
        narrow = (part[0][:, 1:], part[1]) if rank == 1 else part
        said.append(refusal(model, narrow, case.loss))
        expected.append("mat1 and mat2 shapes" if rank == 1 else "rank 1 failed on its part")
        sign = 1.0 if rank == 1 else -1.0
        said.append(refusal(wrap(Branching()), sign * torch.ones(2, 9)))
        expected.append("the ranks ran different modules")
    for text, start in zip(said, expected, strict=True):
        if not text.startswith(start):
            return f"rank {rank} said {text!r}"
    if not same(before, traces(model)):
        return "the model was changed"
    wanted = diagnose(case.model(), case.whole(ranks), case.loss)
    return "; ".join(differences(diagnose(model, part, case.loss), wanted, 1e-10)[:2]) or "same"


def uneven_lengths(wrap: Callable[[nn.Module], nn.Module]) -> str:
    """Sequences of other lengths on other ranks are refused in the middle of the pass, and a good call still works."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    case = CASES["tokens"]
    model, part = wrap(case.model()), case.parts(ranks)[rank]
    said = refusal(model, part[:, : 5 - rank])
    if "pad all parts of the batch to one length" not in said:
        return f"rank {rank} said {said!r}"
    wanted = diagnose(case.model(), case.whole(ranks))
    return "; ".join(differences(diagnose(model, part), wanted, 1e-10)[:2]) or "same"


def refusal(model: nn.Module, batch: Any, loss: Any = None) -> str:
    try:
        diagnose(model, batch, loss)
    except (ValueError, RuntimeError) as error:
        return str(error)
    return "nothing"


def alone() -> str:
    """A plain model is this process's own, though others run: only rank 0 asks, and nobody answers."""
    case = CASES["perceptron"]
    if dist.get_rank():
        return "same"
    samples = diagnose(case.model(), case.whole(1)).recording.samples
    return "same" if samples == 5 else f"{samples} samples"


def diagnoses(names: Iterable[str]) -> dict[str, str]:
    """What differs, by wrapper and case: "same" if nothing does."""
    results = {"plain: alone": alone()}
    for wrapper, wrap in wrappers(dist.get_world_size()).items():
        for name in names:
            results[f"{wrapper}: {name}"] = compared(CASES[name], wrap)
        results[f"{wrapper}: trained"] = trained(CASES["perceptron with a loss"], wrap)
        results[f"{wrapper}: failing"] = failing(wrap)
        results[f"{wrapper}: uneven lengths"] = uneven_lengths(wrap)
    return results
