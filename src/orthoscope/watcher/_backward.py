"""The scalar at which a backward pass starts: told to those who listen, by a wrapper of `torch.autograd.backward`.

`loss.backward()` calls `torch.autograd.backward`, so do Lightning, Accelerate and DeepSpeed. The wrapper is there while
somebody listens; the original is put back when the last one leaves, in whichever order they came. If another program
has wrapped the function in the meantime, its wrapper stays, and ours only passes calls on.
"""

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Listener(Protocol):
    """Told of every backward pass that starts at a scalar."""

    def before_backward(self, root: Tensor) -> None:
        """Called before the pass, while the autograd graph is whole."""

    def after_backward(self, root: Tensor) -> None:
        """Called after the pass; not if it raised."""


# Weak: a watch that ended by an exception of the loop may never leave.
_listeners: list["weakref.ref[Listener]"] = []
_wrapper: Callable[..., None] | None = None  # the one that tells; others only pass on
_original: Callable[..., None] | None = None


def listen(listener: Listener) -> None:
    """Tell `listener` of backward passes from now on."""
    _listeners.append(weakref.ref(listener, _forget))
    if _wrapper is None:
        _install()


def leave(listener: Listener) -> None:
    """Tell `listener` no more."""
    _listeners[:] = [reference for reference in _listeners if reference() not in (listener, None)]
    if not _listeners:
        _uninstall()


def _forget(_: object) -> None:
    _listeners[:] = [reference for reference in _listeners if reference() is not None]
    if not _listeners:
        _uninstall()


def _present() -> Iterator[Listener]:
    for reference in tuple(_listeners):
        listener = reference()
        if listener is not None:
            yield listener


def _install() -> None:
    global _wrapper, _original
    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        root = _scalar(tensors) if _wrapper is backward and grad_tensors is None else None
        if root is None:
            return original(tensors, grad_tensors, *args, **kwargs)
        for listener in _present():
            listener.before_backward(root)
        original(tensors, grad_tensors, *args, **kwargs)
        for listener in _present():
            listener.after_backward(root)
        return None

    _wrapper, _original = backward, original
    torch.autograd.backward = backward


def _uninstall() -> None:
    global _wrapper, _original
    if _wrapper is not None and torch.autograd.backward is _wrapper and _original is not None:
        torch.autograd.backward = _original
    _wrapper = _original = None


def _scalar(tensors: Any) -> Tensor | None:
    """The scalar, if the pass starts at one and only at it."""
    if isinstance(tensors, (tuple, list)) and len(tensors) == 1:
        tensors = tensors[0]
    return tensors if isinstance(tensors, Tensor) and tensors.numel() == 1 and tensors.is_floating_point() else None


def classes_of(root: Tensor) -> int | None:
    """The number of classes of the cross-entropy that a loss is made of; None if it is made of something else.

    Between the two may be casts, views, products and quotients; a sum over samples must be divided by something.
    """
    node, divided = root.grad_fn, False
    for _ in range(_MOST_NODES):
        if node is None:
            return None
        name = type(node).__name__
        if name in ("NllLossBackward0", "NllLoss2DBackward0"):
            sums = node._saved_reduction == _SUM and not divided  # type: ignore[attr-defined]
            logits = node._saved_self  # type: ignore[attr-defined]
            return None if sums else int(logits.shape[min(1, logits.ndim - 1)])
        if name not in _PASSED_BY:
            return None
        divided |= name == "DivBackward0"
        node = node.next_functions[0][0]
    return None


_MOST_NODES = 8
_SUM = 2  # as torch numbers reductions
_PASSED_BY = ("MulBackward0", "DivBackward0", "ToCopyBackward0", "ViewBackward0", "CloneBackward0", "AliasBackward0")


def scale_of(root: Tensor) -> Tensor | None:
    """The factor of a gradient scaler: the float32 scalar tensor that the loss was multiplied by; None without one.

    A Python number that multiplies a loss is a tensor of type float64 in the graph.
    """
    node = root.grad_fn
    factor = getattr(node, "_saved_other", None) if type(node).__name__ == "MulBackward0" else None
    scales = isinstance(factor, Tensor) and factor.ndim == 0 and factor.dtype is torch.float32
    return factor.detach() if scales and not factor.requires_grad else None  # type: ignore[union-attr]
