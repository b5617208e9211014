"""Whether parametrized layers take the weights meant for them, found out before any layer is changed."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.utils import parametrize

from orthoscope.init.weights import WeightLayer


def check_accepted(
    layers: Sequence[tuple[str, WeightLayer]],
    fill: Callable[[WeightLayer, torch.Generator | None], None],
    what: str,
) -> None:
    """Fill every parametrized layer for a trial and undo it; a ValueError names the one that refuses `what`."""
    for name, layer in layers:
        if not parametrize.is_parametrized(layer, "weight") or layer.weight.is_meta:
            continue
        before = {key: value.clone() for key, value in layer.state_dict().items() if isinstance(value, Tensor)}
        # Not the caller's generator, which must give the same numbers as without a trial.
        generator = torch.Generator(layer.weight.device).manual_seed(0)
        try:
            fill(layer, generator)
        except (RuntimeError, TypeError, ValueError) as reason:
            raise ValueError(
                f"layer {name!r} is parametrized and refuses {what}, so no layer was changed: parametrize it after "
                "initialising (only initialise_(model, 'orthogonal') reaches orthogonal layers)"
            ) from reason
        finally:
            state = layer.state_dict()
            for key, value in before.items():
                state[key].copy_(value)
