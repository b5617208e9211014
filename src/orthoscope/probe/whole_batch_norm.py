"""Batch norm with the statistics of a whole batch whose parts lie on different ranks."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from orthoscope.probe.ranks import Ranks


class WholeBatchNorm(TorchFunctionMode):
    r"""Inside, `batch_norm` with batch statistics takes them over all ranks, forward and backward:

    $$ \mu = \tfrac1m \sum_r \sum_{i \in r} x_i, \qquad \sigma^2 = \tfrac1m \sum_r \sum_{i \in r} (x_i - \mu)^2,
       \qquad y_i = \gamma\,\frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta $$

    The function and not the module is replaced, so that modules that call it in their own way are covered.
    Running statistics are left alone. Costs four sums over ranks of two numbers a channel.
    """

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self.ranks = ranks

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = {**dict(zip(_ARGUMENTS.get(function, ()), args, strict=False)), **(kwargs or {})}
        if function in _ARGUMENTS and given.get("training"):
            normalised = self._normalised(given["input"], given.get("eps", 1e-5))
            return _scaled(normalised, given.get("weight"), given.get("bias")).to(given["input"].dtype)
        return function(*args, **(kwargs or {}))

    def _normalised(self, inputs: Tensor, epsilon: float) -> Tensor:
        self.ranks.agree("batch norm")
        # Sums of half-precision numbers are kept in single, as batch norm does.
        values = inputs.to(torch.promote_types(inputs.dtype, torch.float32))
        others = [0, *range(2, values.ndim)]
        count = values.new_full((values.shape[1],), inputs.numel() / max(1, inputs.shape[1]))
        total, size = self._sum(torch.stack([values.sum(others), count]))
        centred = values - _per_channel(total / size.detach(), values)
        variance = self._sum(centred.square().sum(others)) / size.detach()
        return centred * _per_channel((variance + epsilon).rsqrt(), values)

    def _sum(self, tensor: Tensor) -> Tensor:
        return _Sum.apply(tensor, self.ranks)


class _Sum(torch.autograd.Function):
    """Sum over ranks. What each rank's loss owes to the sum, all parts owe: backward is a sum as well."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.sum_(tensor.clone())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.ranks.sum_(gradient.clone()), None


def _per_channel(vector: Tensor, like: Tensor) -> Tensor:
    return vector.view(1, -1, *[1] * (like.ndim - 2))


def _scaled(normalised: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = normalised if weight is None else normalised * _per_channel(weight, normalised)
    return scaled if bias is None else scaled + _per_channel(bias, normalised)


_ARGUMENTS: dict[Any, tuple[str, ...]] = {
    torch.batch_norm: ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"),
    torch.nn.functional.batch_norm: (
        "input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps",
    ),
}  # fmt: skip
