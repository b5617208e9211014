"""Thousands of random networks at once: the recursion h ← norm∘φ∘W, batched over seeds, at any depth."""

from orthoscope.chains.chain import Chain
from orthoscope.chains.gradients import gradients_by_depth, simulate_gradients
from orthoscope.chains.simulation import Simulation, simulate

__all__ = [
    "Chain",
    "Simulation",
    "gradients_by_depth",
    "simulate",
    "simulate_gradients",
]
