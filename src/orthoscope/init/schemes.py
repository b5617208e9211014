"""The schemes by name, and the walk over a model that applies one."""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from orthoscope.init.delta import delta_
from orthoscope.init.gaussian import gaussian_
from orthoscope.init.he import he_
from orthoscope.init.normal import normal_
from orthoscope.init.orthogonal import orthogonal_
from orthoscope.init.svd import svd_
from orthoscope.init.torch_default import torch_default_
from orthoscope.init.trial import check_accepted
from orthoscope.init.weights import WeightLayer
from orthoscope.init.xavier import xavier_

Scheme: TypeAlias = Callable[[WeightLayer, float, torch.Generator | None], None]

# A new scheme is one file and one line here; it then passes every law in tests/init.
SCHEMES: dict[str, Scheme] = {
    "delta-orthogonal": delta_,
    "gaussian": gaussian_,
    "haar": orthogonal_,  # another name of "orthogonal"
    "he": he_,
    "lecun": gaussian_,  # another name of "gaussian"
    "normal": normal_,
    "orthogonal": orthogonal_,
    "svd-orthogonal": svd_,
    "torch": torch_default_,
    "xavier": xavier_,
}


def initialise_(
    model: nn.Module,
    scheme: str | Scheme,
    gain: float = 1.0,
    generator: torch.Generator | None = None,
) -> list[str]:
    """Fill every linear and convolutional layer by a scheme, zero its bias, and return the layers' names.

    Embeddings, normalisations and weights that no `nn.Linear` or `nn.Conv*` owns (the fused projections
    of `nn.MultiheadAttention`, say) stay as they are; so does an output layer tied to an embedding.
    Sharded weights (`fully_shard`) get the numbers that one process would draw, by the first rank's generator; all
    ranks must call. If one layer cannot be filled, as an orthogonal one by any scheme but "orthogonal", none is.
    """
    fill = scheme_named(scheme) if isinstance(scheme, str) else scheme
    if not math.isfinite(gain):
        raise ValueError(f"gain is {gain}, but must be a finite number: it multiplies every weight")
    filled = weight_layers(model)
    for name, layer in filled:
        if is_lazy(layer.weight):
            raise ValueError(f"layer {name!r} has no weight yet: run one batch through the model first")
    check_accepted(filled, lambda layer, generator: fill(layer, gain, generator), f"scheme {scheme!r}, gain {gain:g}")
    for _, layer in filled:
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
        fill(layer, gain, generator)
    return [name for name, _ in filled]


def scheme_named(name: str) -> Scheme:
    """The scheme of that name; a ValueError lists the others."""
    if name not in SCHEMES:
        raise ValueError(f"unknown weight scheme {name!r}: choose one of {', '.join(sorted(SCHEMES))}")
    return SCHEMES[name]


def weight_layers(model: nn.Module) -> list[tuple[str, WeightLayer]]:
    """Linear and convolutional layers in order of definition, without those tied to an embedding."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"a network or a layer is initialised, got a {type(model).__name__}")
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)}
    return [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, WeightLayer) and id(module.weight) not in embeddings
    ]
