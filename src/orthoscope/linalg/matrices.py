"""The one place that decides how a weight tensor is read as a matrix."""

from jaxtyping import Float
from torch import Tensor


def weight_matrix(weight: Float[Tensor, "out *rest"]) -> Float[Tensor, "rows fan_in"]:
    """A weight as `(out, in)`: a convolution is `(out, in·k·k)`, one flattened filter a row; a vector is one row.

    This is the matrix of one output position. It is not the matrix of the whole convolution as a
    linear operator, whose singular values depend on padding and image size.
    """
    if weight.ndim == 1:
        return weight.unsqueeze(0)
    return weight.flatten(start_dim=1)
