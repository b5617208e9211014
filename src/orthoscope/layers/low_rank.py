"""Fine-tuning by a low-rank update (LoRA, Hu et al., 2022), as a parametrization of a frozen weight."""

from typing import TypeVar, final

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

Module = TypeVar("Module", bound=nn.Module)


@final
class LowRankUpdate(nn.Module):
    r"""$W = W_0 + \text{scale} \cdot BA$ with $B$ `(out, rank)` and $A$ `(rank, in)`, made by `low_rank_update`.

    $B$ is `left` and begins at zero; $A$ is `right` and begins Gaussian with variance 1/in. Both are trained.
    """

    def __init__(self, weight: Tensor, rank: int, scale: float, generator: torch.Generator | None) -> None:
        super().__init__()
        out, fan_in = weight.shape
        self.rank, self.scale = rank, scale
        device = weight.device if generator is None else generator.device
        right = torch.randn(rank, fan_in, generator=generator, dtype=weight.dtype, device=device) / fan_in**0.5
        self.left = nn.Parameter(torch.zeros(out, rank, dtype=weight.dtype, device=weight.device))
        self.right = nn.Parameter(right.to(weight.device))

    def forward(self, frozen: Tensor) -> Tensor:
        return torch.addmm(frozen, self.left, self.right, alpha=self.scale)

    def extra_repr(self) -> str:
        return f"rank={self.rank}, scale={self.scale}"


def low_rank_update(
    module: Module,
    name: str = "weight",
    rank: int = 8,
    scale: float = 1.0,
    *,
    generator: torch.Generator | None = None,
) -> Module:
    r"""Freeze a matrix of a module, train a low-rank update of it, $W_0 + \text{scale} \cdot BA$. Returns the module.

    $B = 0$ at the start, so that the function is unchanged. Give the optimizer the parameters that require a gradient:
    `[p for p in model.parameters() if p.requires_grad]`; a bias stays trainable. The update is merged into an ordinary
    weight, still frozen, by `torch.nn.utils.parametrize.remove_parametrizations(module, name)`.
    """
    weight = _matrix(module, name)
    most = min(weight.shape)
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= most:
        raise ValueError(
            f"rank is {rank!r}, but an update of a {weight.shape[0]} x {weight.shape[1]} weight has a rank "
            f"from 1 to {most}"
        )
    update = LowRankUpdate(weight.detach(), rank, scale, generator)
    weight.requires_grad_(False)
    weight.grad = None  # an optimizer would still step on it
    parametrize.register_parametrization(module, name, update)
    return module


def _matrix(module: nn.Module, name: str) -> nn.Parameter:
    """The parameter of that name, if it can be given a low-rank update; otherwise what is the matter with it."""
    if parametrize.is_parametrized(module, name):
        raise ValueError(
            f"{name!r} is already parametrized: call torch.nn.utils.parametrize.remove_parametrizations first"
        )
    parameters = dict(module.named_parameters(recurse=False))
    if name not in parameters:
        have = ", ".join(parameters) or "none of its own"
        raise ValueError(f"{type(module).__name__} has no parameter {name!r}: it has {have}")
    weight = parameters[name]
    if is_lazy(weight):
        raise ValueError(f"{name!r} has no shape yet: run one batch through the module first")
    if weight.ndim != 2:
        raise ValueError(
            f"{name!r} has shape {tuple(weight.shape)}, but only a matrix can be given a low-rank update: "
            f"choose the weight of a linear layer"
        )
    if not weight.is_floating_point():
        raise TypeError(f"{name!r} is of {weight.dtype}: convert it to a floating-point type, which can be trained")
    return weight
