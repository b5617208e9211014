"""Orthogonal schemes by name, for one layer or for every layer of a model."""

import torch
from torch import nn

from orthoscope.init.schemes import initialise_


def haar_(module: nn.Module, gain: float = 1.0, generator: torch.Generator | None = None) -> list[str]:
    """`orthogonal_` on a linear or convolutional layer, or on every one in a model, biases 0; returns their names.

    What is left alone, and what is refused before any layer is changed, is said at `initialise_`.
    """
    return _filled(module, "haar", gain, generator)


def delta_orthogonal_(module: nn.Module, gain: float = 1.0, generator: torch.Generator | None = None) -> list[str]:
    """`delta_` on a convolution, or on every one in a model, biases 0; returns the names of what was filled.

    Linear layers, which have no taps, are filled by `haar_`; convolutions with more inputs than outputs get orthonormal
    rows instead of columns. What is left alone or refused is said at `initialise_`.
    """
    return _filled(module, "delta-orthogonal", gain, generator)


def svd_orthogonal_(module: nn.Module, gain: float = 1.0, generator: torch.Generator | None = None) -> list[str]:
    """`svd_` on a linear or convolutional layer, or on every one in a model, biases 0; returns their names.

    What is left alone or refused is said at `initialise_`.
    """
    return _filled(module, "svd-orthogonal", gain, generator)


def _filled(module: nn.Module, scheme: str, gain: float, generator: torch.Generator | None) -> list[str]:
    names = initialise_(module, scheme, gain, generator)
    if not names:
        raise ValueError(
            f"there is no linear or convolutional layer in {type(module).__name__} to fill: embeddings, "
            "normalisations and heads tied to an embedding are left alone"
        )
    return names
