"""The loss of a call: that of the user, with or without a target, or the one that the model computes itself."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from orthoscope.probe.samples import tensors_in

Loss = Callable[..., Tensor]
NO_LOSS = (
    "the batch brings no target and the model returns no loss of its own: give batches of (inputs, targets), or a loss "
    "of the output alone"
)


def takes_target(loss: Loss | None) -> bool:
    """Whether a loss can be called as `loss(output, target)`."""
    if loss is None:
        return False
    function = loss.forward if isinstance(loss, nn.Module) else loss
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a built-in without a signature
        return True
    return True


def loss_value(loss: Loss, output: Any, target: Any = None) -> Tensor:
    """The loss of an output: `loss(output, target)` if there is a target and the loss takes one, else `loss(output)`.

    Raises:
        ValueError: If the loss needs a target and there is none, or is not one number.
    """
    if isinstance(target, Tensor):
        target = target.to(next((t.device for t in tensors_in(output)), target.device))
    if target is not None and takes_target(loss):
        value = loss(output, target)
    else:
        try:
            value = loss(output)
        except TypeError as error:
            if not takes_target(loss):
                raise
            raise ValueError(
                f"loss(output) fails ({error}): for a loss that compares with targets, give a batch (inputs, targets)"
            ) from error
    if not isinstance(value, Tensor) or value.numel() != 1:
        shape = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"the loss must be one number in a tensor, got {shape}: reduce it, for example by its mean")
    return value.reshape(())


def own_loss(output: Any) -> Tensor | None:
    """The loss that a model returns: its whole output, if that is a number, `.loss`, or the entry "loss" of a dict.

    None unless it is one number that can be differentiated. A number in a tuple may be only a part of the loss, as
    that of a router, and is not taken.
    """
    if isinstance(output, Tensor):
        found = output if output.ndim == 0 else None
    else:
        found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if not isinstance(found, Tensor) or found.numel() != 1 or not found.requires_grad:
        return None
    return found.reshape(())


def default_loss(target: Tensor) -> Loss:
    """Cross entropy for integer targets, classes in the dimension that the target lacks; mean square for others."""
    return nn.functional.mse_loss if target.is_floating_point() else cross_entropy


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of logits whose classes are the last dimension, or the second, as torch has them for images."""
    if output.ndim == target.ndim + 1 and output.shape[:-1] != target.shape:
        return nn.functional.cross_entropy(output, target)
    return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


def call_loss(loss: Loss | None, output: Any, target: Any) -> Tensor:
    """The loss that training takes: the user's, the model's own, or `default_loss` of the target."""
    if loss is not None:
        return loss_value(loss, output, target)
    if (found := own_loss(output)) is not None:
        return found
    if not isinstance(target, Tensor):
        raise ValueError(NO_LOSS)
    if not isinstance(output, Tensor):
        raise ValueError(
            f"the model returns a {type(output).__name__}, which cannot be compared with the target: give "
            "loss(output, target)"
        )
    return loss_value(default_loss(target), output, target)
