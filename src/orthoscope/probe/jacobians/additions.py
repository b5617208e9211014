"""The additions of a forward pass: operands and result as places in the autograd graph, and the module around them.

Convolutions are replaced meanwhile (`cheap_twice`): torch's second derivative of a convolution always computes the
gradient of the weight as well, once for every vector that a Jacobian is multiplied with, which is fifty times the work
in the last stage of a ResNet.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from orthoscope.probe.hooks import observable_modules
from orthoscope.probe.samples import tensors_in

TRANSPOSED: dict[str, Callable[..., Tensor]] = {
    "conv1d": F.conv_transpose1d,
    "conv2d": F.conv_transpose2d,
    "conv3d": F.conv_transpose3d,
}


def cheap_twice(function: Callable[..., Tensor], args: tuple[Any, ...], options: dict[str, Any]) -> Tensor | None:
    """The same convolution, if it is called in the way that modules call it; None leaves it to torch."""
    name = function.__name__
    if options or len(args) != 7 or not all(isinstance(sizes, tuple) for sizes in args[3:6]):
        return None
    image, weight, bias, stride, padding, dilation, groups = args
    if image.ndim != weight.ndim or not image.requires_grad:
        return None
    result: Tensor = _Convolution.apply(image, weight, name, function, stride, padding, dilation, groups)
    return result if bias is None else result + bias.reshape(-1, *([1] * len(stride)))


class _Convolution(torch.autograd.Function):
    """$y = Wx$ whose backward pass is the transposed convolution as an operation of its own."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, weight: Tensor, name: str, function: Any, *how: Any) -> Tensor:
        stride, padding, dilation, groups = how
        ctx.save_for_backward(weight)
        result: Tensor = function(image, weight, None, stride, padding, dilation, groups)
        kernel, sizes = weight.shape[2:], zip(image.shape[2:], result.shape[2:], strict=True)
        # What a stride left over at the far border.
        ctx.rest = tuple(
            before - ((after - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1)
            for i, (before, after) in enumerate(sizes)
        )
        ctx.kind, ctx.how = name, how
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.how
        transposed = TRANSPOSED[ctx.kind]
        image = transposed(gradients[0], weight, None, stride, padding, ctx.rest, groups, dilation)
        return image, *[None] * 7


_ADDITIONS = {"add", "add_", "__add__", "__radd__", "__iadd__"}
# What a network may do to a sum, number by number, before it is the next representation.
_SMOOTH_OR_NOT = "relu relu6 hardtanh leaky_relu elu selu celu gelu silu mish tanh sigmoid softplus hardswish"
ACTIVATIONS = frozenset(f"{name}{in_place}" for name in _SMOOTH_OR_NOT.split() for in_place in ("", "_"))


@dataclass(frozen=True)
class Point:
    """A tensor of the pass: its place in the autograd graph, and a copy of its values."""

    edge: GradientEdge
    value: Tensor


@dataclass
class Sum:
    """An addition of two tensors of one shape that both belong to the graph."""

    stack: tuple[str, ...]  # modules that are running, the outermost first
    around: Point | None  # input of the innermost of them
    operands: tuple[Point, Point]
    since: tuple[str, ...]  # children of the innermost that ran since its last addition, or since it began
    result: Point
    activation: str = ""  # elementwise function of the result that comes first; "" if there is none
    activated: Point | None = None
    other_uses: int = 0  # of the result, beside the activation

    @property
    def module(self) -> str:
        """Name of the module that adds."""
        return self.stack[-1]


@dataclass
class CalledModule:
    """A module that ran: its first floating input and output."""

    name: str
    input: Point | None
    output: Point | None = None
    since: list[str] = field(default_factory=list)  # children that ran since its last addition


class AdditionRecorder(TorchFunctionMode):
    """Records the additions of a model while active: `sums` in order, and `calls` of the modules named.

    Operations are recorded as Python calls them; those inside a fused kernel are not visible.
    """

    def __init__(self, model: nn.Module, wanted: Sequence[str] = ()) -> None:
        super().__init__()
        self.model = model
        self.sums: list[Sum] = []
        self.calls: list[CalledModule] = []
        self._wanted = set(wanted)
        self._running: list[CalledModule] = []
        self._modules = dict(observable_modules(model))
        self._handles: list[RemovableHandle] = []
        self._latest: tuple[Tensor, Sum] | None = None  # the last sum, until it is changed

    def __enter__(self) -> "AdditionRecorder":
        for name, module in self._modules.items():
            self._handles.append(module.register_forward_pre_hook(self._entering(name), with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._leaving(name), always_call=False))
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        for handle in self._handles:
            handle.remove()
        self._latest = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        operands = _operands(args, options) if name in _ADDITIONS else None
        points = None if operands is None else (point(operands[0]), point(operands[1]))
        result = cheap_twice(func, args, options) if name in TRANSPOSED else None
        result = func(*args, **options) if result is None else result
        if isinstance(result, Tensor):
            self._use(name, args, result)
        if points is not None and self._running:
            here, stack = self._running[-1], tuple(running.name for running in self._running)
            self.sums.append(Sum(stack, here.input, points, tuple(here.since), point(result)))
            self._latest = result, self.sums[-1]
            here.since.clear()
        return result

    def _use(self, name: str, args: Any, result: Tensor) -> None:
        """An activation of the last sum is kept with it; any other use is counted."""
        if self._latest is None:
            return
        tensor, seen = self._latest
        if not any(argument is tensor for argument in args):
            return
        # Only in the module that adds or in a child of it: later operations are not part of the block.
        own = tuple(running.name for running in self._running)[: len(seen.stack)] == seen.stack
        if name in ACTIVATIONS and own and seen.activated is None and not seen.other_uses:
            seen.activation, seen.activated = name.rstrip("_"), point(result)
            # In place, the sum is overwritten, and later uses of that tensor are uses of the activation.
            self._latest = None if result is tensor else self._latest
        else:
            seen.other_uses += 1

    def _entering(self, name: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            first = next((t for t in tensors_in((args, kwargs)) if t.is_floating_point()), None)
            self._running.append(CalledModule(name, _point_if_in_graph(first)))

        return enter

    def _leaving(self, name: str) -> Callable[..., None]:
        def leave(module: nn.Module, args: Any, output: Any) -> None:
            running = self._running.pop()
            if self._running:
                self._running[-1].since.append(name)
            if name in self._wanted:
                first = next((t for t in tensors_in(output) if t.is_floating_point()), None)
                running.output = _point_if_in_graph(first)
                self.calls.append(running)

        return leave


def point(tensor: Tensor) -> Point:
    """Where a tensor is now, and what it holds."""
    with torch._C.DisableTorchFunction():
        return Point(get_gradient_edge(tensor), tensor.detach().clone())


def _point_if_in_graph(tensor: Tensor | None) -> Point | None:
    return None if tensor is None or not tensor.requires_grad else point(tensor)


def _operands(args: Sequence[Any], options: Mapping[str, Any]) -> tuple[Tensor, Tensor] | None:
    """Two floating tensors of one shape, both in the graph, added as they are."""
    both = (*args, *(options[name] for name in ("input", "other") if name in options))
    if len(both) != 2 or options.get("alpha", 1) != 1:
        return None
    left, right = both
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        return None
    in_graph = left.requires_grad and right.requires_grad
    return (left, right) if in_graph and left.shape == right.shape and left.is_floating_point() else None
