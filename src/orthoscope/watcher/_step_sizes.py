"""How large a step is beside the weights, from a sample of their entries, and whether its gradient is finite."""

import math
from collections import defaultdict

import torch
from torch import Tensor, nn

from orthoscope.linalg.matrices import local_part

SAMPLED = 256  # entries of every matrix, evenly spaced
WHOLE_GRADIENT, SAMPLED_GRADIENT = 1 << 15, 1 << 11
MOST_MATRICES = 64  # evenly spaced among those of the model


class StepSizes:
    r"""The relative size $\lVert\Delta W\rVert / \lVert W\rVert$ of every step of the optimizer, matrix by matrix.

    Norms are of `SAMPLED` evenly spaced entries of at most `MOST_MATRICES` matrices, those of the device and type that
    most are of; of a sharded matrix, of what this process holds. Matrices with fewer entries are left out, unless all
    have fewer. That is a few small operations for a step; the standard error of a norm is some 5 %.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self.names: list[str] = []
        self._matrices: list[nn.Parameter] | None = None
        self._count = 0
        self._before: Tensor | None = None

    @torch.no_grad()
    def next(self) -> Tensor | None:
        """The relative size of what happened to every matrix since the last call, in the order of `names`.

        None at the first call; nan where a weight was zero or is not finite.
        """
        if self._matrices is None:
            self._choose()
        before, self._before = self._before, self._sample()
        if before is None or self._before is None:
            return None
        return (self._before - before).norm(dim=1) / before.norm(dim=1)

    def forget(self) -> None:
        """Free the sample; the next call is the first one again."""
        self._before = None

    def _choose(self) -> None:
        groups: defaultdict[tuple[torch.device, torch.dtype], list[tuple[str, nn.Parameter]]] = defaultdict(list)
        for name, parameter in self._model.named_parameters():
            moves = parameter.ndim > 1 and parameter.requires_grad and parameter.is_floating_point()
            if moves and local_part(parameter.detach()).numel():
                groups[parameter.device, parameter.dtype].append((name, parameter))
        largest = max(groups.values(), key=len, default=[])
        enough = [pair for pair in largest if local_part(pair[1].detach()).numel() >= SAMPLED] or largest
        chosen = enough[:: -(-len(enough) // MOST_MATRICES)] if enough else []
        self.names = [name for name, _ in chosen]
        self._matrices = [parameter for _, parameter in chosen]
        self._count = min((local_part(one.detach()).numel() for one in self._matrices), default=0)
        self._count = min(self._count, SAMPLED)

    def _sample(self) -> Tensor | None:
        """Evenly spaced entries of every matrix, a row each."""
        if not self._matrices:
            return None
        flat = [local_part(one.detach()).reshape(-1) for one in self._matrices]
        return torch.stack([one[:: one.numel() // self._count][: self._count] for one in flat]).float()


def largest_gradient(parameters: list[nn.Parameter]) -> Tensor | None:
    """The largest entry of all gradients by absolute value; nan or infinite if one is not finite, None without any.

    Of a gradient with more than `WHOLE_GRADIENT` entries, `SAMPLED_GRADIENT` evenly spaced ones are read: what is not
    finite spreads over whole rows on its way back, and what is missed shows in the loss of the next step.
    """
    gradients = [local_part(one.grad) for one in parameters if one.grad is not None and one.grad.numel()]
    read = [_some_entries(one.coalesce().values() if one.is_sparse else one) for one in gradients]
    return torch.nn.utils.get_total_norm(read, norm_type=math.inf) if read else None


def _some_entries(gradient: Tensor) -> Tensor:
    size = gradient.numel()
    return gradient if size <= WHOLE_GRADIENT else gradient.reshape(-1)[:: size // SAMPLED_GRADIENT]
