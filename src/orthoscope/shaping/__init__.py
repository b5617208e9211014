"""Activations made closer to linear, so that depth does no harm: gains by layer, and slopes for ReLU."""

from orthoscope.shaping.activations import linearisable_activations, shape_activations_
from orthoscope.shaping.choice import Shaping, choose_gains
from orthoscope.shaping.gain_law import GAINS, GainLaw, fit_gain_law, gain_schedule
from orthoscope.shaping.leaky import LeakyChange, shape_leaky_
from orthoscope.shaping.rates import measured_rates, predicted_rates, simulated_rates
from orthoscope.theory import gain_of_slope, leaky_slope

__all__ = [
    "GAINS",
    "GainLaw",
    "LeakyChange",
    "Shaping",
    "choose_gains",
    "fit_gain_law",
    "gain_of_slope",
    "gain_schedule",
    "leaky_slope",
    "linearisable_activations",
    "measured_rates",
    "predicted_rates",
    "shape_activations_",
    "shape_leaky_",
    "simulated_rates",
]
