"""What a network is made of, to tell later whether it still is."""

from torch import nn


def structure(model: nn.Module) -> tuple[tuple[str, str], ...]:
    """Every module by its name and kind, also where it is used twice; what has no parts by what it shows of itself."""
    return tuple(
        (name, type(module).__name__ if next(module.children(), None) is not None else repr(module))
        for name, module in model.named_modules(remove_duplicate=False)
    )
