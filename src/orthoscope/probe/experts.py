"""How tokens are shared among the experts of a mixture: read where a router picks them, during the one forward pass.

A module holds a mixture if it, or a child of it, has a list of several modules of one class or a stack of matrices in
one parameter. Its router is whatever picks the best of as many numbers as there are experts (`topk`, `argmax`, or `max`
with indices) while the module runs; without a pick, a softmax over as many numbers shares tokens softly.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

FEWEST_TOKENS = 2  # for every expert: with fewer, an expert may get none by chance


@dataclass(frozen=True)
class ExpertLoad:
    """How a router shares the tokens of the batch.

    Attributes:
        module: Name of the module that holds the experts.
        per_token: Experts that a token goes to.
        tokens: Tokens that were routed.
        load: Share of the tokens that each expert got, of all that were given out.
    """

    module: str
    per_token: int
    tokens: int
    load: tuple[float, ...]

    @property
    def experts(self) -> int:
        """Number of experts."""
        return len(self.load)

    @property
    def effective(self) -> float:
        """Effective number of experts: the exponential of the entropy of the load."""
        return math.exp(-sum(share * math.log(share) for share in self.load if share > 0))

    @property
    def unused(self) -> tuple[int, ...]:
        """Experts that got no token."""
        return tuple(index for index, share in enumerate(self.load) if share == 0)

    @property
    def balance(self) -> float:
        """0 if all tokens go to the same experts, 1 if all experts get as many; nan if a token goes to all."""
        spare = self.experts - self.per_token
        return (self.effective - self.per_token) / spare if spare > 0 else math.nan

    def __str__(self) -> str:
        return f"{self.module}: {self.effective:.1f} of {self.experts} experts in effect, {len(self.unused)} unused"

    __repr__ = __str__


@dataclass
class _Routing:
    per_token: int
    counts: Tensor
    tokens: int


@dataclass
class ExpertObserver:
    """Counts the tokens of every expert; `handlers` says which functions it wants to see."""

    sizes: dict[str, set[int]] = field(default_factory=dict)  # by module, how many experts it may hold
    _picked: dict[str, dict[Any, _Routing]] = field(default_factory=dict)  # by module and running call
    _soft: dict[str, dict[Any, _Routing]] = field(default_factory=dict)

    def attach(self, name: str, module: nn.Module) -> None:
        """Note how many experts a module may hold, in children or in their parameters."""
        sizes = _stacks(module)
        for child in module.children():
            sizes |= _stacks(child)
            if isinstance(child, nn.ModuleList) and len({type(one) for one in child}) == 1:
                sizes.add(len(child))
        self.sizes[name] = {size for size in sizes if size > 1}

    @property
    def handlers(self) -> dict[str, Callable[..., None]]:
        """Functions of torch by name, and what is called with what is running, the arguments and the result."""
        return {"topk": self._topk, "argmax": self._argmax, "max": self._max, "softmax": self._softmax}

    def loads(self) -> tuple[ExpertLoad, ...]:
        """Return the rows, in the order in which routers ran first."""
        names = dict.fromkeys([*self._picked, *self._soft])
        return tuple(self._load(name) for name in names)

    def _load(self, name: str) -> ExpertLoad:
        # A pick that follows a softmax says more than the softmax.
        calls = list((self._picked.get(name) or self._soft[name]).values())
        counts = torch.stack([one.counts.double().cpu() for one in calls]).sum(0)
        total = float(counts.sum()) or 1.0
        load = tuple((counts / total).tolist())
        return ExpertLoad(name, calls[-1].per_token, sum(one.tokens for one in calls), load)

    def _holder(self, running: Sequence[Any], size: int) -> Any:
        """The innermost running module that may hold so many experts, at most one level above the router."""
        return next((frame for frame in reversed(running[-3:]) if size in self.sizes.get(frame.name, ())), None)

    def _topk(self, running: Sequence[Any], args: Sequence[Any], options: Mapping[str, Any], result: Any) -> None:
        scores = args[0] if args else options.get("input", options.get("self"))
        axis = options.get("dim", args[2] if len(args) > 2 else -1)
        if isinstance(scores, Tensor) and axis in (-1, scores.ndim - 1):
            self._pick(running, scores, result[1])

    def _argmax(self, running: Sequence[Any], args: Sequence[Any], options: Mapping[str, Any], result: Any) -> None:
        scores = args[0] if args else options.get("input", options.get("self"))
        axis = options.get("dim", args[1] if len(args) > 1 else None)
        if isinstance(scores, Tensor) and axis is not None and axis in (-1, scores.ndim - 1):
            keeps = result.ndim == scores.ndim
            self._pick(running, scores, result if keeps else result.unsqueeze(-1))

    def _max(self, running: Sequence[Any], args: Sequence[Any], options: Mapping[str, Any], result: Any) -> None:
        if isinstance(result, tuple) and len(result) == 2:
            self._argmax(running, args, options, result[1])

    def _pick(self, running: Sequence[Any], scores: Tensor, indices: Tensor) -> None:
        frame = self._holder(running, scores.shape[-1]) if scores.ndim > 1 else None
        if frame is not None:
            counts = torch.bincount(indices.detach().reshape(-1), minlength=scores.shape[-1])
            routing = _Routing(indices.shape[-1], counts, indices.numel() // indices.shape[-1])
            # Where groups of experts are picked before experts, the last pick counts.
            self._picked.setdefault(frame.name, {})[frame] = routing

    def _softmax(self, running: Sequence[Any], args: Sequence[Any], options: Mapping[str, Any], result: Any) -> None:
        axis = options.get("dim", args[1] if len(args) > 1 else None)
        if not isinstance(result, Tensor) or result.ndim < 2 or axis not in (-1, result.ndim - 1):
            return
        size = result.shape[-1]
        # Only the module itself, or the one whose child the gate is: a softmax over a few numbers is common.
        frame = self._holder(running, size)
        if frame is not None:
            shares = result.detach().reshape(-1, size)
            self._soft.setdefault(frame.name, {})[frame] = _Routing(1, shares.sum(0), len(shares))


def unused_experts(load: ExpertLoad, modules: Mapping[str, nn.Module]) -> Iterator[str]:
    """Yield the names of the expert modules that got no token, and with a dot those that everything in them has."""
    holder = modules[load.module]
    for name, child in holder.named_children():
        if isinstance(child, nn.ModuleList) and len(child) == load.experts:
            for index in load.unused:
                yield f"{load.module}.{name}.{index}".removeprefix(".")


def _stacks(module: nn.Module) -> set[int]:
    """First dimensions of the parameters of a module that are stacks of matrices."""
    if isinstance(module, (_ConvNd, nn.MultiheadAttention, nn.RNNBase)):
        return set()
    return {len(one) for one in module._parameters.values() if one is not None and one.ndim == 3}
