"""The activation of a layer: `orthoscope.layers` knows the names and the shaping."""

from torch import nn

from orthoscope.layers import ShapedActivation
from orthoscope.layers.activations import ACTIVATIONS, Activation, unshaped

__all__ = ["ACTIVATIONS", "Activation", "activation"]


def activation(choice: Activation, gain: int | float = 1.0) -> nn.Module:
    """A new module from a name, a module, what makes one, or a function of tensors; shaped unless the gain is 1."""
    return unshaped(choice) if gain == 1 else ShapedActivation(choice, gain)
