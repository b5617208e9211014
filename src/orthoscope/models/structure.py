"""What a network is made of, to tell later whether it still is."""

from torch import nn


def structure(model: nn.Module) -> tuple[tuple[str, str], ...]:
    """Every module by its name and what it shows of itself, its parts aside; also where it is used twice."""
    return tuple(
        (name, repr(module) if next(module.children(), None) is None else _of_itself(module))
        for name, module in model.named_modules(remove_duplicate=False)
    )


def _of_itself(module: nn.Module) -> str:
    return f"{type(module).__name__}({module.extra_repr()})"
