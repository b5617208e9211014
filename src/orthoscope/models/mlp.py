"""The fully connected network of the theory: hidden layers of equal width."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.activations import Activation
from orthoscope.init import Scheme, initialize_, weight_sample
from orthoscope.models.blocks import ResidualBlock, block, linear, require_positive, structure, vector_norm


class MLP(nn.Module):
    """`depth` hidden layers (linear, norm, activation) of `width` units, and a linear head.

    Modules are named `layers.7.linear`, `layers.7.norm`, `layers.7.activation` (with `residual`:
    `layers.7.branch.linear` and so on) and `head`.

    Args:
        depth: Number of hidden layers.
        width: Units of a hidden layer.
        in_features: Features of a sample; by default `width`.
        out_features: Outputs of the head; None for no head.
        activation: A name of `activations.ACTIVATIONS`, a module, a factory or an elementwise function.
        norm: A name of `models.blocks.VECTOR_NORMS`.
        order: "norm-activation" or "activation-norm".
        residual: Whether every hidden layer that keeps the width adds `residual_scale` times its block to its input.
        residual_scale: Factor of the residual branches.
        init: A scheme of `init.SCHEMES`, or a function `(layer, gain, generator)`.
        gain: Shapes the activation: φ(gain·x)/gain.
        weight_gain: Multiplies the weights of `init`, also in the head.
        bias: Whether linear layers have biases.
        bias_std: Standard deviation of Gaussian biases, which are 0 otherwise.
        generator: Source of random numbers; None for torch's global one.
    """

    def __init__(
        self,
        *,
        depth: int = 50,
        width: int = 100,
        in_features: int | None = None,
        out_features: int | None = 10,
        activation: Activation = "relu",
        norm: str = "none",
        order: str = "norm-activation",
        residual: bool = False,
        residual_scale: float = 1.0,
        init: str | Scheme = "he",
        gain: float = 1.0,
        weight_gain: float = 1.0,
        bias: bool = False,
        bias_std: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.in_features = width if in_features is None else in_features
        # Theory reads these arguments and nothing else; a scheme given as a function has no theory.
        self.arguments: dict[str, Any] = {
            "depth": depth,
            "width": width,
            "in_features": in_features,
            "out_features": out_features,
            "activation": activation,
            "norm": norm,
            "order": order,
            "residual": residual,
            "residual_scale": residual_scale,
            "init": init if isinstance(init, str) else None,
            "gain": gain,
            "weight_gain": weight_gain,
            "bias": bias,
            "bias_std": bias_std,
        }
        require_positive(depth=depth, width=width, in_features=self.in_features)
        self.layers = nn.Sequential()
        for fan_in in [self.in_features] + [width] * (depth - 1):
            weight = linear(fan_in, width, bias)
            hidden: nn.Module = block(weight, vector_norm(norm, width), activation, gain, order)
            if residual and fan_in == width:
                hidden = ResidualBlock(hidden, scale=residual_scale)
            self.layers.append(hidden)
        self.head = None if out_features is None else linear(width, out_features, bias)
        initialize_(self, init, weight_gain, generator)
        if bias_std:
            self._draw_biases(bias_std, generator)
        # To detect later whether modules or weights have changed since construction, where theory no longer holds.
        self.made_of = structure(self)
        self.drawn = weight_sample(self)

    def _draw_biases(self, std: float, generator: torch.Generator | None) -> None:
        biases = [parameter for name, parameter in self.named_parameters() if name.endswith("bias")]
        if not biases:
            raise ValueError(f"bias_std={std} needs biases: build with bias=True")
        for parameter in biases:
            nn.init.normal_(parameter, std=std, generator=generator)

    def forward(self, inputs: Float[Tensor, "samples *shape"]) -> Float[Tensor, "samples out"]:
        """Outputs of a batch of samples, which are flattened."""
        flat = inputs.flatten(start_dim=1)
        if inputs.ndim < 2 or flat.shape[1] != self.in_features:
            raise ValueError(
                f"this MLP takes samples of {self.in_features} features, got a batch of shape "
                f"{tuple(inputs.shape)}: build it with in_features={flat[:1].numel()}"
            )
        hidden: Tensor = self.layers(flat)
        return hidden if self.head is None else self.head(hidden)
