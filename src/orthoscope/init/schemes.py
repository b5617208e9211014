"""Initialization schemes by name, the variances they give, and `initialize_`, which applies one to a model.

A scheme is a function `(layer, gain, generator)` that fills the weight of one linear or convolutional layer. A new one
is a function here and a line of `SCHEMES` and of the variances; it then has to pass every law in tests/init.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from orthoscope.init.weights import (
    WeightLayer,
    blocks_shape,
    check_accepted,
    check_has_weight,
    check_kept,
    fans,
    fill_,
    normal_blocks,
    weight_layers,
    write_,
)
from orthoscope.linalg import group_matrices, haar
from orthoscope.linalg.convolution import from_polyphase


def gaussian_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \mathcal N(0, \text{gain}^2 / \text{fan\_in})$ (LeCun et al., 1998).

    A linear layer then keeps the variance.
    """
    fan_in, _ = fans(layer)
    fill_(layer, normal_blocks(layer, gain / fan_in**0.5, generator))


def he_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \mathcal N(0, 2\,\text{gain}^2 / \text{fan\_in})$ (He et al., 2015).

    A linear layer after a ReLU then keeps the mean square.
    """
    gaussian_(layer, gain * 2**0.5, generator)


def xavier_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \mathcal N\big(0, 2\,\text{gain}^2 / (\text{fan\_in} + \text{fan\_out})\big)$.

    A compromise between keeping the variance of activations and that of gradients (Glorot & Bengio, 2010).
    """
    fill_(layer, normal_blocks(layer, gain * (2 / sum(fans(layer))) ** 0.5, generator))


# https://github.com/openai/gpt-2/blob/master/src/model.py, `w_init_stdev`
TRANSFORMER_STD = 0.02


def normal_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \mathcal N(0, (0.02\,\text{gain})^2)$ at any width, as in GPT-2 and BERT."""
    fill_(layer, normal_blocks(layer, gain * TRANSFORMER_STD, generator))


def orthogonal_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W = \text{gain} \cdot Q$ with $QQ^\top = I$ ($Q^\top Q = I$, if $W$ is taller than wide), $Q$ Haar.

    Saxe et al., 2014. Each group of a grouped convolution is orthogonal on its own, which makes the whole
    block-diagonal matrix orthogonal.
    """
    groups, out, fan_in = blocks_shape(layer)
    weight = layer.weight
    device = generator.device if generator is not None else weight.device
    frames = haar(out, fan_in, groups, generator=generator, dtype=weight.dtype, device=device)
    fill_(layer, gain * frames)


def torch_default_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \text{gain} \cdot U(-b, b)$ and bias $\sim U(-b, b)$, with $b = 1/\sqrt{\text{fan\_in}}$.

    PyTorch's default, `kaiming_uniform_(a=√5)`, of variance 1/(3 fan_in): the mean square of a deep ReLU network falls
    6-fold per layer.
    """
    bound = fans(layer)[0] ** -0.5
    fill_(layer, gain * _uniform(blocks_shape(layer), layer.weight, bound, generator))
    if layer.bias is not None:
        write_(layer.bias, _uniform(layer.bias.shape, layer.bias, bound, generator))


def _uniform(shape: Sequence[int], like: Tensor, bound: float, generator: torch.Generator | None) -> Tensor:
    device = generator.device if generator is not None else like.device
    return bound * (2 * torch.rand(tuple(shape), generator=generator, dtype=like.dtype, device=device) - 1)


def delta_orthogonal_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$K_t = \text{gain}\,Q$ at the middle tap $t$ and 0 elsewhere, $Q$ Haar; a linear layer is $Q$.

    Xiao et al., 2018. With padding that keeps the size, $\|K * x\| = \text{gain}\,\|x\|$ for at least as many outputs
    as inputs; with fewer $K * K^\top = \text{gain}^2 I$: no norm grows by more than the gain, and a random subspace is
    lost. With a stride $s$ the middle $s$ taps of each axis share $Q$ (all of them, if the kernel is shorter), since
    $s^d$ pixels of every channel are then inputs of one position; a dilation combined with a stride is ignored. Each
    group is orthogonal on its own. A transposed convolution is the adjoint of such a kernel. In an even kernel the
    middle is the earlier tap, where `padding="same"` puts it.
    """
    if isinstance(layer, nn.Linear):
        orthogonal_(layer, gain, generator)
        return
    weight, shape, groups = layer.weight, layer.weight.shape, layer.groups
    # The weight of a transposed convolution is read as that of its adjoint: groups are along the first dimension.
    middle = [min(taps, stride) for taps, stride in zip(shape[2:], layer.stride, strict=True)]
    device = generator.device if generator is not None else weight.device
    rows, columns = shape[0] // groups, shape[1] * math.prod(middle)
    matrices = haar(rows, columns, groups, generator=generator, dtype=weight.dtype, device=device)
    kernel = from_polyphase(matrices.reshape(shape[0], columns, *[1] * len(middle)), middle)
    margins: list[int] = []
    for taps, used in zip(reversed(shape[2:]), reversed(middle), strict=True):
        margins += [(taps - used) // 2, taps - used - (taps - used) // 2]
    fill_(layer, gain * group_matrices(functional.pad(kernel, margins), groups, layer.transposed))


Scheme: TypeAlias = Callable[[WeightLayer, float, torch.Generator | None], None]

SCHEMES: dict[str, Scheme] = {
    "delta-orthogonal": delta_orthogonal_,
    "gaussian": gaussian_,
    "he": he_,
    "lecun": gaussian_,  # another name of "gaussian"
    "normal": normal_,
    "orthogonal": orthogonal_,
    "torch": torch_default_,
    "xavier": xavier_,
}


def initialize_(
    model: nn.Module,
    scheme: str | Scheme,
    gain: float = 1.0,
    generator: torch.Generator | None = None,
    keep: Collection[str] = (),
) -> list[str]:
    """Fill the weight of every linear and convolutional layer by a scheme, and set its bias to 0.

    Embeddings, normalization layers, an output layer tied to an embedding, and weights that no `nn.Linear` or
    `nn.Conv*` owns (the fused projections of `nn.MultiheadAttention`) stay unchanged. Sharded weights (`fully_shard`)
    get the values that one process would draw with the first process's generator; all processes must call.

    Args:
        model: A network or a single layer.
        scheme: A name of `SCHEMES`, or a function `(layer, gain, generator)`.
        gain: Multiplies every weight.
        generator: Source of random numbers; None for torch's global one.
        keep: Names of layers to leave unchanged, such as zero-initialized ends of residual branches.

    Returns:
        The names of the layers that were filled.

    Raises:
        ValueError: If a layer cannot be filled, as an orthogonal one by a scheme other than "orthogonal"; no layer is
            changed then. A `scheme` function that raises leaves the layers before it filled.

    Example:
        >>> orthoscope.init.initialize_(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), "orthogonal", gain=2**0.5)
        ['0']
    """
    fill = scheme_named(scheme) if isinstance(scheme, str) else scheme
    if not math.isfinite(gain):
        raise ValueError(f"gain is {gain}, but must be a finite number: it multiplies every weight")
    layers = weight_layers(model)
    check_kept(layers, keep)
    filled = [(name, layer) for name, layer in layers if name not in keep]
    for name, layer in filled:
        check_has_weight(name, layer)
    check_accepted(filled, lambda layer, generator: fill(layer, gain, generator), f"scheme {scheme!r}, gain {gain:g}")
    for _, layer in filled:
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
        fill(layer, gain, generator)
    return [name for name, _ in filled]


def scheme_named(name: str) -> Scheme:
    """The scheme of that name; a ValueError lists all."""
    if name not in SCHEMES:
        raise ValueError(f"unknown weight scheme {name!r}: choose one of {', '.join(sorted(SCHEMES))}")
    return SCHEMES[name]


# At gain 1, from fan in and fan out; the docstring of each scheme has the law.
_VARIANCES: dict[str, Callable[[int, int], float]] = {
    "delta-orthogonal": lambda fan_in, fan_out: 1 / max(fan_in, fan_out),
    "gaussian": lambda fan_in, fan_out: 1 / fan_in,
    "he": lambda fan_in, fan_out: 2 / fan_in,
    "lecun": lambda fan_in, fan_out: 1 / fan_in,
    "normal": lambda fan_in, fan_out: TRANSFORMER_STD**2,
    "orthogonal": lambda fan_in, fan_out: 1 / max(fan_in, fan_out),
    "torch": lambda fan_in, fan_out: 1 / (3 * fan_in),
    "xavier": lambda fan_in, fan_out: 2 / (fan_in + fan_out),
}


def weight_variance(scheme: str, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
    r"""$\mathbb{E} W_{ij}^2$ of the named scheme at `gain`.

    Args:
        scheme: A name of `SCHEMES`.
        fan_in: Inputs of one output unit.
        fan_out: Outputs that one input unit reaches.
        gain: Multiplies the weights.

    Raises:
        ValueError: For an unknown scheme.
    """
    scheme_named(scheme)
    return gain**2 * _VARIANCES[scheme](fan_in, fan_out)


def bias_variance(scheme: str, fan_in: int) -> float:
    """Variance of a bias: zero, except for PyTorch's default, which draws biases like weights."""
    return weight_variance(scheme, fan_in, fan_in) if scheme == "torch" else 0.0
