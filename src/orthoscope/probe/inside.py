"""What happens between the modules of a forward pass: attentions, residual sums, routers, and steps of time.

Hooks see modules; functions that a module calls are seen by a mode that torch asks about every one of them. The
innermost module that is running is known from hooks before and after every call.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from orthoscope.probe.attention import AttentionCall, AttentionObserver
from orthoscope.probe.experts import ExpertLoad, ExpertObserver
from orthoscope.probe.recurrence import TimeObserver, TimeProfile
from orthoscope.probe.restore import unguarded
from orthoscope.probe.trunk import ADDITIONS, Trunk, TrunkObserver

if TYPE_CHECKING:
    from orthoscope.probe.hooks import ModuleCall

_NEAR = 60  # operations between an attention and the weight layers that its queries and keys come from


@dataclass(frozen=True)
class InsideRows:
    """What was seen between the modules of a pass; see `Recording`."""

    attention: tuple[AttentionCall, ...] = ()
    trunk: Trunk | None = None
    time: tuple[TimeProfile, ...] = ()
    experts: tuple[ExpertLoad, ...] = ()


@dataclass(eq=False)
class _Running:
    """A module that is running."""

    name: str
    is_softmax: bool = False  # as a module: the attention is the one that calls it


class Inside(TorchFunctionMode):
    """While active, sees the functions of torch that the modules of a model call, with their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = AttentionObserver()
        self.experts = ExpertObserver()
        self.time = TimeObserver()
        self.trunk = TrunkObserver()
        self._running: list[_Running] = [_Running("")]
        self.attentions: tuple[AttentionCall, ...] = ()
        self._handles: list[RemovableHandle] = []
        self._of_module = self.attention.handlers
        self._of_stack = self.experts.handlers
        self._additions = frozenset(ADDITIONS)
        self._wanted = frozenset((*self._of_module, *self._of_stack, *ADDITIONS))

    def attach(self, names: Mapping[str, nn.Module]) -> None:
        """Put hooks on every module that takes one."""
        for name, module in names.items():
            if isinstance(module, torch.jit.ScriptModule):
                continue
            self.experts.attach(name, module)
            self.time.attach(name, module)
            self._handles.append(module.register_forward_pre_hook(self._entering(name)))
            self._handles.append(module.register_forward_hook(self._leaving(name), always_call=True))

    def close(self) -> None:
        """Remove the hooks and release the autograd graph."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.time.close()
        self.trunk.close()
        self.attention.seen.clear()

    @property
    def _attention(self) -> str:
        inner = self._running[-1]
        return self._running[-2].name if inner.is_softmax else inner.name

    @staticmethod
    @contextlib.contextmanager
    def paused() -> Iterator[None]:
        """Context for the work of hooks, which is not that of the model."""
        with torch._C.DisableTorchFunction():
            yield

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        name = getattr(func, "__name__", "")
        if name not in self._wanted:
            return func(*args, **options)
        with unguarded(), torch.no_grad():
            kept = self.trunk.operands(args, options) if name in self._additions else None
        result = func(*args, **options)
        with unguarded(), torch.no_grad():
            if kept is not None and isinstance(result, Tensor):
                self.trunk.added(self._running[-1].name, kept, result)
            if name in self._of_module:
                self._of_module[name](self._attention, args, options, result)
            if name in self._of_stack:
                self._of_stack[name](self._running, args, options, result)
        return result

    def end_forward(self) -> None:
        """Name what attentions come from, find the residual stream, and follow the gradient along it."""
        layers = {place: str(call.name) for call, place in self.trunk.outputs if call.weighted}
        self.attentions = self.attention.calls(lambda node: _source(node, layers))
        self.trunk.find()

    def rows(self, calls: "Sequence[ModuleCall]") -> InsideRows:
        """Return what was seen, after the backward pass."""
        return InsideRows(self.attentions, self.trunk.trunk(), self.time.profiles(calls), self.experts.loads())

    def _entering(self, name: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: Any) -> None:
            self._running.append(_Running(name, isinstance(module, nn.Softmax)))

        return enter

    def _leaving(self, name: str) -> Callable[..., None]:
        def leave(module: nn.Module, args: Any, output: Any) -> None:
            # A module that fails, and whose error the model catches, leaves its children behind.
            while len(self._running) > 1 and self._running.pop().name != name:
                pass

        return leave


def _source(node: Node | None, layers: Mapping[Node, str]) -> str:
    """Name the nearest weight layer that a place in the graph comes from; empty if none is near."""
    todo, seen = deque([node]), set[Node]()
    while todo and len(seen) < _NEAR:
        here = todo.popleft()
        if here is None or here in seen:
            continue
        if here in layers:
            return layers[here]
        seen.add(here)
        todo.extend(parent for parent, _ in here.next_functions)
    return ""
