"""Adaptive gradient clipping (Brock et al., 2021): gradients are bounded relative to the weights they change."""

from collections.abc import Iterable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.optim._batching import places

Per = Literal["unit", "layer"]


@torch.no_grad()
def clip_adaptively_(
    parameters: nn.Module | Tensor | Iterable[Tensor],
    clipping: float = 0.01,
    eps: float = 1e-3,
    per: Per = "unit",
) -> Float[Tensor, ""]:
    r"""Scale down, in place, gradients longer than `clipping` $=\lambda$ times their weight.

    $$ G_i \leftarrow \min\Big(1,\ \lambda\,\frac{\max(\|W_i\|, \varepsilon)}{\|G_i\|}\Big)\, G_i $$

    Call it between `backward()` and `step()`, after unscaling if losses are scaled. A unit whose gradient is not finite
    is left as it is, and does not affect the others. The defaults are those of the NFNets, which leave out the last
    layer.

    Args:
        parameters: A model or parameters; those without a gradient are skipped.
        clipping: $\lambda$.
        eps: $\varepsilon$.
        per: "unit": $W_i$ is a row of a matrix or a filter of a convolution (the first dimension; of a transposed
            convolution an input), and vectors and scalars are one unit each. "layer": $W_i$ is a whole parameter;
            with `eps=1e-2` this is (A.21) of joudaki2024.

    Returns:
        The fraction of units that were scaled down, a tensor on the device of the first gradient so that nothing waits
        for the device; 0 if there are no gradients.

    Raises:
        ValueError: If an option has no meaning, or a gradient is sparse or sharded; nothing is clipped then.
    """
    if not clipping > 0 or not eps > 0:
        raise ValueError(f"clipping and eps must be positive, got {clipping} and {eps}")
    if per not in ("unit", "layer"):
        raise ValueError(f"per must be 'unit' or 'layer', got {per!r}")
    pairs = _with_gradients(parameters)
    if not pairs:
        return torch.zeros(())
    first = pairs[0][1].device
    by_device = places(gradient.device for _, gradient in pairs).values()
    counts = [_clip_([pairs[place] for place in own], clipping, eps, per).to(first) for own in by_device]
    shortened, units = torch.stack(counts).sum(0)
    return shortened / units


def _with_gradients(parameters: nn.Module | Tensor | Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    if isinstance(parameters, nn.Module):
        parameters = parameters.parameters()
    if not isinstance(parameters, Iterable):
        raise ValueError(f"expected a model or parameters, got {type(parameters).__name__}: pass model.parameters()")
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if strange := {type(one).__name__ for one in given if not isinstance(one, Tensor)}:
        raise ValueError(f"expected parameters, got {min(strange)} among them: pass model.parameters()")
    pairs = [(weight, weight.grad) for weight in given if weight.grad is not None and weight.numel()]
    for weight, gradient in pairs:
        if gradient.layout is not torch.strided or hasattr(gradient, "device_mesh"):
            kind = "sparse" if gradient.layout is not torch.strided else "sharded"
            raise ValueError(
                f"a gradient of shape {tuple(weight.shape)} is {kind}, and only dense ones can be clipped; nothing was"
                " changed: leave its parameter out"
            )
    return pairs


def _clip_(pairs: list[tuple[Tensor, Tensor]], clipping: float, eps: float, per: Per) -> Tensor:
    """Clip the gradients of one device; returns how many units were scaled down and how many there are."""
    weights, lengths = (_norms([pair[side] for pair in pairs], per) for side in (0, 1))
    longest = clipping * torch.cat(weights).clamp_min(eps)
    length = torch.cat(lengths)
    too_long = (length > longest) & length.isfinite()
    factors = torch.where(too_long, longest / length, 1.0).split([len(part) for part in lengths])
    gradients = [gradient for _, gradient in pairs]
    shaped = [
        factor.to(gradient.dtype).reshape(-1, *[1] * (gradient.ndim - 1)) if gradient.ndim else factor[0].to(gradient)
        for factor, gradient in zip(factors, gradients, strict=True)
    ]
    torch._foreach_mul_(gradients, shaped)
    return torch.stack([too_long.sum(), torch.full_like(too_long.sum(), len(length))]).to(longest.dtype)


def _norms(tensors: list[Tensor], per: Per) -> list[Tensor]:
    """One norm per unit, in float64, where the square of an exploded gradient does not overflow."""
    dtype = torch.float64 if tensors[0].device.type != "mps" else torch.float32  # MPS has no float64
    norms = []
    for tensor in tensors:
        whole = per == "layer" or tensor.ndim < 2
        rows = tensor.reshape(1, -1) if whole else tensor.flatten(start_dim=1)
        norms.append(torch.linalg.vector_norm(rows, dim=1, dtype=dtype))
    return norms
