"""Whether the weights of a network are known to be as they were drawn: only then may they be drawn anew in place."""

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from orthoscope.diagnosis.anatomy import signs_of_training
from orthoscope.diagnosis.hyperparameters import is_as_drawn
from orthoscope.init.schemes import weight_layers
from orthoscope.init.sharded import is_sharded

_RARE = 28.0  # a fresh end of a weight is missed with probability exp(-14), about one in a million


def doubt_that_drawn(model: nn.Module) -> str:
    r"""Why the weights may be trained, empty if they are known to be as drawn.

    They are known if a network of `orthoscope.models` remembers them; or if nothing shows signs of training and every
    linear and convolutional layer looks like the draw of torch, $U(-b, b)$ with $b = 1/\sqrt{\text{fan\_in}}$: no
    number beyond $b$, and the $n$ of a weight reach to $b(1 - 28/n)$ on both sides. Training pushes some weight over
    the bound, weight decay takes all away from it; a training that moves weights by less than their distance to it,
    a share of about $1/n$, is not seen.
    """
    signs = signs_of_training(model)
    if signs or is_as_drawn(model):
        return signs
    layers = weight_layers(model)
    if not layers:
        return "no layer has weights that could be compared with a fresh draw"
    for name, layer in layers:
        if not _looks_drawn(layer.weight, layer.bias):
            return f"the weights of {name!r} are not as torch draws them"
    return ""


def _looks_drawn(weight: Tensor, bias: Tensor | None) -> bool:
    for values in (weight, bias):
        if values is not None and (is_lazy(values) or values.is_meta or is_sharded(values)):
            return False
    bound = weight[0].numel() ** -0.5
    if not _spans(weight, bound):
        return False
    # Many networks start with biases of 0; the first step of a training moves them.
    return bias is None or not bool(bias.any()) or _spans(bias, bound)


def _spans(values: Tensor, bound: float) -> bool:
    """Whether numbers lie within ± bound, are not all the same, and come as close to both ends as so many must."""
    low, high = (float(end) for end in values.detach().double().aminmax())
    most = bound * (1 + 2 * torch.finfo(values.dtype).eps)
    least = bound * (1 - _RARE / values.numel())
    varied = low < high or values.numel() == 1
    return varied and -most <= low <= -least and least <= high <= most
