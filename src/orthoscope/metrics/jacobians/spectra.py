"""RA3: Jacobians have at most as many singular values as there are classes. And how far a Jacobian is from isometry."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from orthoscope.metrics.spectral import Scalar

Values = Float[Tensor, "*batch count"]


class Isometry(NamedTuple):
    """Mean and standard deviation of the logarithms of singular values: both 0 for an isometry."""

    mean: Tensor
    spread: Tensor


def rank_ratio(singular_values: Values, classes: int = 10) -> Scalar:
    r"""$\sigma_{C+1}/\sigma_1$, 0 if the rank is at most $C$; nan for a zero Jacobian.

    Zero too where there are no more than $C$ dimensions, and refused where fewer singular values were computed.
    """
    if singular_values.shape[-1] <= classes:
        raise ValueError(
            f"the rank beyond {classes} classes needs {classes + 1} singular values, got {singular_values.shape[-1]}: "
            f"ask for top={classes + 1}"
        )
    return singular_values[..., classes].double() / singular_values[..., 0].double()


def top_energy(singular_values: Values, energy: Scalar, classes: int = 10) -> Scalar:
    r"""$\sum_{k \le C}\sigma_k^2 / \|J\|_F^2$, the share of a Jacobian that rank $C$ can hold; nan if it is zero."""
    return (singular_values[..., :classes].double().square().sum(-1) / energy.double()).clamp_max(1)


def condition_number(singular_values: Values) -> Scalar:
    r"""$\sigma_{\max}/\sigma_{\min}$ of all singular values; infinite if some direction is lost, nan if all are."""
    return singular_values.amax(-1).double() / singular_values.amin(-1).double()


def dynamical_isometry(singular_values: Values) -> Isometry:
    r"""Mean and standard deviation of $\log\sigma$ over all singular values; minus infinity and nan if one is zero.

    A network trains evenly in all directions if its input-output Jacobian has both near 0 (Saxe, McClelland &
    Ganguli, 2014). The mean is that of a layer's gain, and adds up over layers when they are aligned.
    """
    logarithms = singular_values.double().log()
    return Isometry(logarithms.mean(-1), logarithms.std(-1, correction=0))
