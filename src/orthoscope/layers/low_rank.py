"""Fine-tuning by a low-rank update (LoRA, Hu et al., 2022), as a parametrization of a frozen weight."""

import math
from typing import Any, TypeVar, final

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from orthoscope.layers._registration import check_module, make_picklable, owned_tensor, translate_when_loading

Module = TypeVar("Module", bound=nn.Module)


@final
class LowRankUpdate(nn.Module):
    r"""$W = W_0 + \text{scale} \cdot BA$ with $B$ `(out, rank)` and $A$ `(rank, in)`, made by `low_rank_update`.

    $B$ is `left` and begins at zero; $A$ is `right` and begins Gaussian with variance 1/in. Both are trained.

    Args:
        weight: $W_0$, for its shape, type and device.
        rank: Rows of $A$ and columns of $B$.
        scale: Multiplies the update.
        generator: Source of random numbers for $A$.
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
        """The updated weight."""
        return torch.addmm(frozen, self.left, self.right, alpha=self.scale)

    def extra_repr(self) -> str:
        """Rank and scale."""
        return f"rank={self.rank}, scale={self.scale}"


def low_rank_update(
    module: Module,
    name: str = "weight",
    rank: int = 8,
    scale: float = 1.0,
    *,
    generator: torch.Generator | None = None,
) -> Module:
    r"""Freeze a matrix of a module and train a low-rank update of it, $W_0 + \text{scale} \cdot BA$ (LoRA).

    $B = 0$ at the start, so that the function is unchanged. Give the optimizer the parameters that require a gradient:
    `[p for p in model.parameters() if p.requires_grad]`; a bias stays trainable. The update is merged into an ordinary
    weight, still frozen, by `torch.nn.utils.parametrize.remove_parametrizations(module, name)`. `load_state_dict` also
    takes a checkpoint that holds the plain weight, as $W_0$ with $B = 0$.

    Args:
        module: The layer that owns the weight; it is modified.
        name: Name of the weight, a matrix.
        rank: Rank of the update, at most the smaller size of the weight.
        scale: Multiplies the update; finite and not 0.
        generator: Source of random numbers for $A$.

    Returns:
        The module.

    Raises:
        TypeError, ValueError: For arguments or weights that do not fit; the module is then unchanged.
    """
    check_module(module, generator)
    weight = _matrix(module, name)
    most = min(weight.shape)
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= most:
        raise ValueError(
            f"rank is {rank!r}, but an update of a {weight.shape[0]} x {weight.shape[1]} weight has a rank "
            f"from 1 to {most}"
        )
    if not math.isfinite(scale) or scale == 0:
        raise ValueError(f"scale={scale} makes an update that cannot train: give a finite number other than 0")
    update = LowRankUpdate(weight.detach(), rank, scale, generator)
    weight.requires_grad_(False)
    weight.grad = None  # an optimizer would still step on it
    parametrize.register_parametrization(module, name, update)
    make_picklable(module)
    translate_when_loading(module, _begin_from_plain_weight)
    return module


def _begin_from_plain_weight(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A checkpoint with the plain weight is one of $W_0$; without factors of its own, the update begins anew."""
    if not parametrize.is_parametrized(module):
        return
    for name, updates in module.parametrizations.items():  # type: ignore[operator, union-attr]
        plain, inner = f"{prefix}{name}", f"{prefix}parametrizations.{name}."
        if len(updates) != 1 or not isinstance(updates[0], LowRankUpdate):
            continue
        if plain in state and f"{inner}original" not in state:
            state[f"{inner}original"] = state.pop(plain)
            state.setdefault(f"{inner}0.left", torch.zeros_like(updates[0].left))
            state.setdefault(f"{inner}0.right", updates[0].right)


def _matrix(module: nn.Module, name: str) -> Tensor:
    """The tensor of that name; a TypeError or ValueError if it cannot be given a low-rank update."""
    weight = owned_tensor(module, name)
    if weight.ndim != 2:
        raise ValueError(
            f"{name!r} has shape {tuple(weight.shape)}, but only a matrix can be given a low-rank update: "
            f"choose the weight of a linear layer"
        )
    if not weight.is_floating_point():
        raise TypeError(f"{name!r} is of {weight.dtype}: convert it to a floating-point type, which can be trained")
    return weight
