"""Which modules of a network are activations: one nonlinear function of one number, applied to every entry."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from orthoscope.layers.blended_activation import BlendedActivation
from orthoscope.layers.centred_activation import CentredActivation
from orthoscope.layers.shaped_activation import ShapedActivation

_AROUND_ANOTHER = (ShapedActivation, CentredActivation, BlendedActivation)


def activation_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Activations by name, in order of definition; one around another counts once. No module of the model is run.

    A module that is in several places comes with the name of each.
    """
    known: dict[str, bool] = {}
    yield from _walk("", model, known)


def _walk(prefix: str, module: nn.Module, known: dict[str, bool]) -> Iterator[tuple[str, nn.Module]]:
    for name, child in module._modules.items():  # named_children would leave out what is there twice
        if child is None:
            continue
        if isinstance(child, _AROUND_ANOTHER) or next(child.children(), None) is None:
            # By what it prints: in a deep network all activations are of a few kinds.
            text = f"{type(child).__module__}.{type(child).__qualname__} {child!r}"
            if text not in known:
                known[text] = is_activation(child)
            if known[text]:
                yield f"{prefix}{name}", child
        else:
            yield from _walk(f"{prefix}{name}.", child, known)


def is_activation(module: nn.Module) -> bool:
    """Whether it has no state and acts on entries one by one, otherwise than a straight line does."""
    if next(module.parameters(), None) is not None or next(module.buffers(), None) is not None:
        return False
    if "drop" in type(module).__name__.lower():
        return False
    points = torch.linspace(-3.1, 3.3, 12, dtype=torch.float64)
    try:
        # A copy without hooks: what the user's module counts or remembers is not for us to move.
        twin = copy.deepcopy(module).eval()
        with torch.no_grad():
            together = twin.forward(points.clone().reshape(4, 3))
            alone = torch.cat([twin.forward(point.clone().reshape(1)) for point in points])
    except Exception:  # whatever a module raises on numbers that it was not made for
        return False
    if not isinstance(together, Tensor) or together.shape != (4, 3) or alone.shape != points.shape:
        return False
    straight = (alone[2:] - 2 * alone[1:-1] + alone[:-2]).abs().max() < 1e-9
    return torch.allclose(together.flatten(), alone, rtol=1e-12) and not bool(straight)
