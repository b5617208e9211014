"""Kernel maps that are elementary functions (cho2009; joudaki2024, Corollary 5.7), at input variance 1."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def step_overlap_map(overlap: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
    r"""Heaviside's step: $\kappa(\rho) = 1 - \arccos(\rho)/\pi$."""
    return 1 - overlap.arccos() / math.pi


def sign_overlap_map(overlap: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
    r"""Sign: $\kappa(\rho) = \tfrac2\pi \arcsin\rho$."""
    return 2 / math.pi * overlap.arcsin()


def exponential_overlap_map(overlap: Float[Tensor, "*pairs"], exponent: float = 1.0) -> Float[Tensor, "*pairs"]:
    r"""$\phi(x) = e^{ax}$: $\kappa(\rho) = e^{a^2(\rho - 1)}$."""
    return torch.exp(exponent**2 * (overlap - 1))


def sine_overlap_map(overlap: Float[Tensor, "*pairs"], frequency: float = 1.0) -> Float[Tensor, "*pairs"]:
    r"""$\phi(x) = \sin(ax)$: $\kappa(\rho) = \sinh(a^2\rho)/\sinh(a^2)$."""
    # Without the factor e^{a²|ρ|}, which overflows above a frequency of 26.
    square = frequency**2
    decay = torch.exp(square * (overlap.abs() - 1))
    return overlap.sign() * decay * torch.expm1(-2 * square * overlap.abs()) / math.expm1(-2 * square)


def cosine_overlap_map(overlap: Float[Tensor, "*pairs"], frequency: float = 1.0) -> Float[Tensor, "*pairs"]:
    r"""$\phi(x) = \cos(ax)$: $\kappa(\rho) = \cosh(a^2\rho)/\cosh(a^2)$."""
    square = frequency**2
    decay = torch.exp(square * (overlap.abs() - 1))
    return decay * (1 + torch.exp(-2 * square * overlap.abs())) / (1 + math.exp(-2 * square))


def erf_overlap_map(overlap: Float[Tensor, "*pairs"], gain: float = 1.0) -> Float[Tensor, "*pairs"]:
    r"""$\phi(x) = \operatorname{erf}(ax)$: $\kappa(\rho) = \arcsin(b\rho)/\arcsin(b)$ with $b = 2a^2/(1 + 2a^2)$."""
    share = 2 * gain**2 / (1 + 2 * gain**2)
    return torch.arcsin(share * overlap) / math.asin(share)


def hermite_overlap_map(
    overlap: Float[Tensor, "*pairs"], coefficients: Float[Tensor, " terms"]
) -> Float[Tensor, "*pairs"]:
    r"""$\phi = \sum_k c_k\,\mathrm{he}_k$, finitely many terms: $\kappa(\rho) = \sum_k c_k^2 \rho^k / \sum_k c_k^2$."""
    total = torch.zeros_like(overlap)
    for square in reversed(coefficients.square().tolist()):
        total = total * overlap + square
    return total / coefficients.square().sum()
