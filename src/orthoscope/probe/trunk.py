r"""The residual stream of a network, found during its forward pass: sums $h + F(h)$, and which modules are inside $F$.

A sum of two tensors of one shape is residual if one was computed from the other through weights, or if both were
computed from one tensor, one of them by a longer way (the skip is a projection). Only places in the autograd graph and
the sizes of a few samples are kept; gradients are those that the one backward pass brings.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.utils.hooks import RemovableHandle

from orthoscope.probe.restore import unguarded
from orthoscope.probe.samples import evenly_spaced, norm

ADDITIONS = ("add", "add_", "__add__", "__radd__", "__iadd__")
FEWEST = 3  # sums of a residual stream: a network with fewer is judged as one without skips
_SAMPLES = 4  # whose sizes are taken
_VISITS = 100_000  # operations that are looked at in all, so that unusual graphs cost little


@dataclass(frozen=True)
class TrunkPoint:
    """The residual stream after one sum.

    Attributes:
        name: The last weight layer of the branch that was added, or the module that adds.
        after: Weight layers that were called before the sum.
        gradient_norm: Norm of the gradient with respect to the sum; None if none arrived.
        rms: Root mean square of the sum, over a few samples.
        branch_ratio: Root mean square of the branch over that of the stream it is added to; infinite if that is zero.
    """

    name: str
    after: int
    gradient_norm: float | None
    rms: float
    branch_ratio: float


@dataclass(frozen=True)
class Trunk:
    """The residual stream of a network.

    Attributes:
        points: The stream after every sum, in the order in which they were computed.
    """

    points: tuple[TrunkPoint, ...]

    @property
    def signal_growth(self) -> float:
        """Change of the log of the root mean square from the first point to the last; nan where one is zero."""
        first, last = self.points[0].rms, self.points[-1].rms
        return math.log(last / first) if first > 0 and last > 0 and math.isfinite(first + last) else math.nan


@dataclass
class _Sum:
    module: str
    node: Node
    operands: tuple[tuple[Node, int], tuple[Node, int]]
    sizes: Tensor  # root mean squares of the operands and of the result
    gradient_norm: float | None = None


@dataclass(frozen=True)
class _Paths:
    """From the operands of a sum back to where they part: the skip, and the branch with its operations."""

    skip: int  # which operand is the stream
    is_identity: bool
    branch: frozenset[Node]
    projection: frozenset[Node]


@dataclass
class TrunkObserver:
    """Collects sums and outputs of modules in the forward pass, and finds the residual ones when it has ended."""

    sums: list[_Sum] = field(default_factory=list)
    outputs: list[tuple[Any, Node]] = field(default_factory=list)  # module calls and where they are in the graph
    _points: list[tuple[_Sum, _Paths]] = field(default_factory=list)
    _handles: list[RemovableHandle] = field(default_factory=list)
    _visits: int = 0

    def operands(self, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """What must be kept of a sum before it is computed, since it may overwrite an operand; None if it is none."""
        both = [*args, *(options[name] for name in ("input", "other") if name in options)][:2]
        if len(both) < 2 or not all(isinstance(one, Tensor) and one.requires_grad for one in both):
            return None
        left, right = both
        if left.shape != right.shape or left.ndim < 2 or left.grad_fn is None or right.grad_fn is None:
            return None
        places = tuple((one.grad_fn, one.output_nr) for one in both)
        return places, [_size(one) for one in both]

    def added(self, module: str, kept: Any, result: Tensor) -> None:
        """Keep a sum."""
        places, sizes = kept
        if result.grad_fn is not None:
            self.sums.append(_Sum(module, result.grad_fn, places, torch.stack([*sizes, _size(result)])))

    def output(self, call: Any, tensor: Tensor) -> None:
        """Keep where the output of a module call is in the graph."""
        if tensor.grad_fn is not None:
            self.outputs.append((call, tensor.grad_fn))

    def find(self) -> None:
        """Find the residual sums, follow their gradients, and mark the module calls inside branches."""
        found = [(one, paths) for one in self.sums if (paths := self._parted(one)) is not None]
        identities = {id(one.node): index for index, (one, paths) in enumerate(found) if paths.is_identity}
        # A skip over a whole stack of residual blocks is no branch: what is inside lies on their stream.
        long = {
            index
            for index, (one, paths) in enumerate(found)
            if sum(id(node) in identities for node in paths.branch) > 1
        }
        inside = {
            node for index, (_, paths) in enumerate(found) if index not in long
            for node in (*paths.branch, *paths.projection)
        }  # fmt: skip
        self._points = [pair for index, pair in enumerate(found) if index not in long and pair[0].node not in inside]
        if len(self._points) < FEWEST:
            self._points = []
            return
        for one, _ in self._points:
            self._handles.append(one.node.register_prehook(self._following(one)))
        for call, node in self.outputs:
            call.branch = node in inside

    def _following(self, one: _Sum) -> Any:
        def follow(gradients: tuple[Tensor | None, ...]) -> None:
            if gradients[0] is not None:
                with unguarded():
                    one.gradient_norm = norm(gradients[0])

        return follow

    def trunk(self) -> Trunk | None:
        """Return the stream after the backward pass; None without a residual sum."""
        if not self._points:
            return None
        return Trunk(tuple(self._point(one, paths) for one, paths in self._points))

    def _point(self, one: _Sum, paths: _Paths) -> TrunkPoint:
        number = one.node._sequence_nr()
        before = [(call, node) for call, node in self.outputs if call.weighted and node._sequence_nr() < number]
        last = [call.name for call, node in before if node in paths.branch]
        *both, total = one.sizes.tolist()
        stream, branch = both[paths.skip], both[1 - paths.skip]
        ratio = branch / stream if stream else math.inf
        return TrunkPoint(last[-1] if last else one.module, len(before), one.gradient_norm, total, ratio)

    def close(self) -> None:
        """Release the autograd graph."""
        for handle in self._handles:
            handle.remove()
        for kept in (self._handles, self.sums, self.outputs, self._points):
            kept.clear()

    def _parted(self, one: _Sum) -> _Paths | None:
        r"""Follow both operands back, the latest operation first, to the first that both come from.

        Operations carry the order in which they were called, and what is visited latest-first has all its successors
        behind it: so the first operation reached from both sides is where the paths part.
        """
        starts = [node for node, _ in one.operands]
        sides = {node: 1 << index for index, node in enumerate(starts)}
        if len(sides) < 2:
            return None
        order = count()
        heap = [(-node._sequence_nr(), next(order), node) for node in starts]
        heapq.heapify(heap)
        weights, passed = [0, 0], (set[Node](), set[Node]())
        reached: set[tuple[Node, int]] = set()
        while heap and self._visits < _VISITS:
            self._visits += 1
            node = heapq.heappop(heap)[2]
            side = sides[node]
            if side == 3:
                return _judged(one, node, passed, weights, reached)
            passed[side - 1].add(node)
            for parent, number in node.next_functions:
                if parent is None:
                    continue
                if parent.name() == "torch::autograd::AccumulateGrad":
                    weights[side - 1] += isinstance(getattr(parent, "variable", None), nn.Parameter)
                    continue
                reached.add((parent, number))
                if parent not in sides:
                    sides[parent] = side
                    heapq.heappush(heap, (-parent._sequence_nr(), next(order), parent))
                else:
                    sides[parent] |= side
        return None


def _judged(
    one: _Sum, fork: Node, passed: tuple[set[Node], set[Node]], weights: Sequence[int], reached: set[tuple[Node, int]]
) -> _Paths | None:
    for skip, place in enumerate(one.operands):
        if place[0] is fork:
            other = 1 - skip
            through_it = place in reached and weights[other] > 0
            return _Paths(skip, True, frozenset(passed[other]), frozenset()) if through_it else None
    if weights[0] == weights[1]:
        return None  # neither is the skip: parallel branches, or a rotation of queries
    branch = 0 if weights[0] > weights[1] else 1
    return _Paths(1 - branch, False, frozenset(passed[branch]), frozenset(passed[1 - branch]))


def _size(tensor: Tensor) -> Tensor:
    """Root mean square over a few of the first dimension, without waiting for the device."""
    few = tensor.detach()[evenly_spaced(tensor.shape[0], _SAMPLES)]
    wide = torch.promote_types(few.dtype, torch.float32)
    return torch.linalg.vector_norm(few, dtype=wide).float() / max(1, few.numel()) ** 0.5
