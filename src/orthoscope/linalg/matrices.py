"""How a weight tensor is read as a matrix, or as one for each group of a convolution; and what a sharded one holds."""

from collections.abc import Sequence

from jaxtyping import Inexact
from torch import Tensor


def is_sharded(tensor: Tensor) -> bool:
    """True if a tensor is a DTensor, without importing that class, which takes a second."""
    return hasattr(tensor, "device_mesh")


def whole(tensor: Tensor) -> Tensor:
    """The tensor, gathered if it is sharded (a collective: all processes must call)."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def local_part(tensor: Tensor) -> Tensor:
    """What this process holds of a sharded tensor, sharing its memory; any other tensor as it is."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def weight_matrix(weight: Inexact[Tensor, "out *rest"]) -> Inexact[Tensor, "rows fan_in"]:
    """A weight as `(out, in)`: a convolution is `(out, in·k·k)`, one flattened filter a row; a vector is one row.

    This is the matrix of one output position. It is not the matrix of the whole convolution as a
    linear operator, whose singular values depend on padding and image size.

    Args:
        weight: Of a linear layer, a convolution, or a vector.
    """
    if weight.ndim == 1:
        return weight.unsqueeze(0)
    return weight.flatten(start_dim=1)


def group_matrices(weight: Tensor, groups: int = 1, transposed: bool = False) -> Tensor:
    """One matrix `(out, in·k·k)` for every group, `(groups, out, fan_in)`: a grouped convolution is block diagonal.

    Args:
        weight: `(out, in/groups, *taps)`, or `(in, out/groups, *taps)` if transposed.
        groups: Of the convolution; 1 for a linear layer.
        transposed: True for the weight of a transposed convolution.
    """
    if transposed:
        # Stored (in, out/groups, …): within each group the first two dimensions swap.
        grouped = weight.reshape(groups, -1, *weight.shape[1:])
        weight = grouped.transpose(1, 2).flatten(0, 1)
    matrix = weight_matrix(weight)
    return matrix.reshape(groups, -1, matrix.shape[1])


def weight_of_group_matrices(matrices: Tensor, shape: Sequence[int], transposed: bool = False) -> Tensor:
    """The weight of `shape` whose `group_matrices` these are.

    Args:
        matrices: `(groups, out, fan_in)`.
        shape: Shape of the weight.
        transposed: True for a transposed convolution.
    """
    if transposed:
        groups, out, _ = matrices.shape
        grouped = matrices.reshape(groups, out, -1, *shape[2:])
        matrices = grouped.transpose(1, 2)
    return matrices.reshape(tuple(shape))
