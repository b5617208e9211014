"""Thousands of random networks at once: the recursion h ← norm∘φ∘W, batched over seeds, at any depth."""

from orthoscope.chains.chain import Chain
from orthoscope.chains.gradients import gradients_by_depth, simulate_gradients
from orthoscope.chains.products import Products, lyapunov, vanilla_products
from orthoscope.chains.simulation import Simulation, simulate

__all__ = [
    "Chain",
    "Products",
    "Simulation",
    "gradients_by_depth",
    "lyapunov",
    "simulate",
    "simulate_gradients",
    "vanilla_products",
]
