"""Activations: one table by name, as modules and as functions of one number, and closer to the identity.

* `table`: `ACTIVATIONS`, name -> function, kinks, module; an activation as a function of one real number, for theory.
* `modules`: a module of any choice; `ShapedActivation`, `CenteredActivation`, `BlendedActivation`; those of a model.
* `placement`: replace the activation modules of a model in place.
* `gain_law`: the explosion rate of gradients as a function of the gain, and gains that bound the total.

How strong the activations of a model should be is chosen in `orthoscope.prescriptions`.
"""

from orthoscope.activations.gain_law import GAINS, GainLaw, fit_gain_law, gain_schedule
from orthoscope.activations.modules import (
    Activation,
    BlendedActivation,
    CenteredActivation,
    Elementwise,
    ShapedActivation,
    activation,
    activation_module,
    activation_modules,
    toward_identity,
    value_and_slope_at_zero,
)
from orthoscope.activations.placement import (
    LeakyChange,
    blend_activations_,
    linearizable_activations,
    shape_activations_,
    shape_leaky_,
)
from orthoscope.activations.table import ACTIVATIONS, Choice, Nonlinearity, Pointwise, nonlinearity

__all__ = [
    "ACTIVATIONS", "GAINS", "Activation", "BlendedActivation", "CenteredActivation", "Choice", "Elementwise", "GainLaw",
    "LeakyChange", "Nonlinearity", "Pointwise", "ShapedActivation", "activation", "activation_module",
    "activation_modules", "blend_activations_", "fit_gain_law", "gain_schedule", "linearizable_activations",
    "nonlinearity", "shape_activations_", "shape_leaky_", "toward_identity", "value_and_slope_at_zero",
]  # fmt: skip
