"""The kernel map: overlap of two inputs before a random layer to overlap after it, at infinite width."""

from torch import Tensor

from orthoscope.theory.activations import Choice, Nonlinearity, nonlinearity
from orthoscope.theory.kernel.convergence import ROUNDING
from orthoscope.theory.kernel.overlap_map import KernelMap
from orthoscope.theory.quadrature import gaussian_rule
from orthoscope.theory.sources import source

__all__ = ["NORMS", "ORDERS", "KernelMap", "kernel_map"]

NORMS = ("none", "rms", "layer")
ORDERS = ("norm-activation", "activation-norm")


@source("joudaki2024", "Definition 5.3, section 5.6", assumes="infinite width, independent weights, no bias")
def kernel_map(
    activation: Choice,
    norm: str | None = None,
    order: str = "norm-activation",
    gain: int | float = 1.0,
    input_variance: int | float = 1.0,
) -> KernelMap:
    r"""The map of overlaps by one layer of a wide random network: $\rho_{\ell+1} = \kappa(\rho_\ell)$.

    `norm` and `order` are spelt as in `orthoscope.models`. RMS normalisation on either side of the activation
    and layer normalisation before it leave $\kappa$ as it is (they hold the variance at 1); layer normalisation after
    the activation replaces $\phi$ by $\phi - \mathbb{E}\phi(X)$. `input_variance` $q$ is that of its inputs:
    the map of $\phi(\sqrt q\,x)$; normalisation before the activation makes it 1.
    """
    norm = "none" if norm is None else norm
    if norm.startswith("batch"):
        raise ValueError(
            "batch normalisation couples all samples of a batch, so that two of them have no map of their own: "
            "use gram_fixed_point, which follows the whole batch"
        )
    if norm not in NORMS or order not in ORDERS:
        raise ValueError(f"norm {norm!r} in order {order!r} is unknown: norms are {NORMS}, orders are {ORDERS}")
    if norm != "none" and order == "norm-activation" and input_variance != 1:
        raise ValueError(f"{norm} normalisation before the activation makes the input variance 1, not {input_variance}")
    phi = nonlinearity(activation, gain).with_input_scale(input_variance)
    found = KernelMap(_recentred(phi) if norm == "layer" and order == "activation-norm" else phi)
    if found.scale == 0:
        raise ValueError(f"activation {phi.name} is 0 everywhere: overlaps are not defined")
    return found


def _recentred(phi: Nonlinearity) -> Nonlinearity:
    rule = gaussian_rule(phi)
    values = phi(rule.nodes)
    mean = float(rule.weights @ values)
    if (values - mean).abs().max() <= ROUNDING * abs(mean):
        raise ValueError(f"activation {phi.name} is constant: layer normalisation after it has nothing to normalise")

    def recentred(inputs: Tensor) -> Tensor:
        return phi.function(inputs) - mean

    return Nonlinearity(f"{phi.name} after layer normalisation", recentred, phi.kinks)
