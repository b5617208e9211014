"""Layers whose weight is orthonormal by construction, for all values of its coordinates."""

import warnings
from typing import TypeVar

import torch
from torch import nn

from orthoscope.layers._arguments import check_beginning, check_module, map_for, matrix_weight, partial_size
from orthoscope.layers._registration import register, translate_when_loading
from orthoscope.layers._starting_weight import starting_weight
from orthoscope.layers.parametrization import Layout, OrthogonalParametrization, computing_dtype

Module = TypeVar("Module", bound=nn.Module)


def orthogonal(
    module: Module,
    name: str = "weight",
    map: str = "auto",
    *,
    num_reflections: int | None = None,
    num_rotations: int | None = None,
    determinant: int | None = None,
    start: str | None = None,
    generator: torch.Generator | None = None,
) -> Module:
    r"""Keep a weight orthonormal during training, $W^\mathsf{H}W = I$ (if wide, $WW^\mathsf{H} = I$).

    A weight of more than two dimensions is a batch of matrices. The weight of a convolution is, for every group, the
    matrix `(out, in·k·k)` of one output position; that does not make the convolution an isometry of images, for which
    see `orthogonal_convolution`. The weight `(4·hidden, hidden)` of an `nn.LSTM` is one matrix, not one for each gate.

    The coordinates are a new parameter: create the optimizer after this call, with `weight_decay=0` for them, since
    decay moves the weight within its manifold. Another module that shares the weight keeps the old one. float16 and
    bfloat16 weights are computed in float32, also under autocast. Assigning an orthonormal `module.weight` keeps it,
    any other is refused; `load_state_dict` also takes checkpoints that hold the plain weight.
    `torch.nn.utils.parametrize.cached()` computes the weight once for many uses; `remove_parametrizations` leaves it.
    Derivatives are of any order by `backward`; forward mode, so `torch.func.jvp` and `hessian`, is for "cayley" and
    "exponential" only.

    Args:
        module: The layer that owns the weight; it is modified.
        name: Name of the parameter or buffer.
        map: "householder", "cayley", "exponential" (stores a whole base frame) or "givens". "auto" takes "cayley", or
            for weights at least twice as tall as wide "householder"; `repr(module)` says which. Complex weights need
            "cayley" or "exponential".
        num_reflections: With "householder", fewer than the full number give a cheaper, partial family.
        num_rotations: With "givens", the same. Rotations come in fans, each coordinate with all later ones, so that
            $p$ fans of $n$ rows are $p(2n-p-1)/2$ rotations.
        determinant: +1 or -1, for square real weights; by default that of the starting weight. Training cannot change
            it.
        start: What replaces a weight that is not orthonormal to rounding, $\max|W^\mathsf{H}W - I| \le
            2\varepsilon_\text{stored} + 10\sqrt n\,\varepsilon_\text{computed}$: the nearest one, with a warning (None)
            or without ("nearest"), or nothing, which raises ("keep"). "haar" replaces any weight by a random one.
        generator: Source of random numbers for "haar".

    Returns:
        The module.

    Raises:
        TypeError, ValueError: For arguments or weights that do not fit, with a remedy. The module is then unchanged.

    Example:
        >>> layer = orthoscope.layers.orthogonal(nn.Linear(64, 64), start="haar")
        >>> bool(orthoscope.linalg.orthonormality_error(layer.weight) < 1e-5)
        True
    """
    check_module(module, generator)
    weight = matrix_weight(module, name, start)
    layout = Layout.of(module, name)
    chosen = map == "auto"
    map = map_for(layout, weight, map, num_reflections, num_rotations)
    size = partial_size(layout, num_reflections, num_rotations)
    check_beginning(layout, weight, determinant, start)
    # In full precision at first: rounded to bfloat16, a member of a partial family would leave it.
    computed = computing_dtype(weight.dtype)
    path = f"parametrizations.{name}[0]"
    parametrization = OrthogonalParametrization(
        layout, map, size, dtype=computed, device=weight.device, chosen=chosen, path=path
    )
    beginning, remark = weight.detach(), None
    if not weight.is_meta:
        beginning, remark = starting_weight(parametrization, beginning, start, determinant, generator)
    register(module, name, parametrization, beginning.to(device=weight.device, dtype=computed))
    translate_when_loading(module)
    if remark is not None:
        warnings.warn(remark, stacklevel=2)
    return module
