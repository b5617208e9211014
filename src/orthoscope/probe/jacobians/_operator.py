r"""The Jacobian of a piece of a forward pass as a linear map: products with $J$ and $J^\top$, never $J$ itself.

$J^\top w$ is a backward pass from the end of the piece to its start. It is linear in $w$, so a backward pass through it
gives $Jv$: both only need the graph that one forward pass left behind, and nothing is run again.
"""

from collections.abc import Callable
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.graph import GradientEdge

from orthoscope.probe.jacobians.branches import Branch

# Numbers in one tensor of a batched product: more vectors than fit go one chunk after the other.
_CHUNK_ELEMENTS = 1 << 23

Inputs = Float[Tensor, "samples inputs count"]
Outputs = Float[Tensor, "samples outputs count"]


class JacobianOperator:
    r"""$J = \operatorname{diag}(\sigma')\,\partial F/\partial h$, one matrix a sample.

    $\sigma'$ is there if an activation follows the sum. Samples must be independent of each other, as in eval mode:
    then one product serves all of them. With `token`, $\partial F_t/\partial h_t$ of that token alone.
    """

    def __init__(self, branch: Branch, token: int | None = None) -> None:
        start, end = branch.start, branch.end
        self._start, self._end = start.edge, end.edge
        self._like_start, self._like_end = start.value, end.value
        self._slope = _slope(branch)
        self._token = token
        self._pulled: tuple[Tensor, Tensor] | None = None
        if token is not None:
            _refuse_token(branch, token)
        self.samples = start.value.shape[0]
        first = 1 if token is None else 2  # dimension of the units
        self.inputs, self.outputs = (prod(value.shape[first:]) for value in (start.value, end.value))

    @property
    def shape(self) -> tuple[int, int]:
        """(outputs, inputs) of every sample's matrix."""
        return self.outputs, self.inputs

    @property
    def dtype(self) -> torch.dtype:
        return self._like_start.dtype

    @property
    def device(self) -> torch.device:
        return self._like_start.device

    def multiply(self, vectors: Inputs) -> Outputs:
        """$Jv$ for every column, sample by sample."""
        pulled, probe = self._transposed_graph()

        def push(vector: Tensor) -> Tensor:
            (image,) = torch.autograd.grad(pulled, probe, vector, retain_graph=True, materialize_grads=True)
            return image

        return self._columns(self._mapped(push, self._rows(vectors, self._like_start)), scaled=True)

    def multiply_transposed(self, vectors: Outputs) -> Inputs:
        r"""$J^\top w$ for every column, sample by sample."""

        def pull(vector: Tensor) -> Tensor:
            return _pull(self._end, self._start, vector, create_graph=False)

        rows = self._rows(vectors, self._like_end)
        return self._columns(self._mapped(pull, rows if self._slope is None else rows * self._slope))

    def dense(self) -> Float[Tensor, "samples outputs inputs"]:
        """The matrices themselves, by products with every unit vector of the smaller side."""
        size = min(self.shape)
        units = torch.eye(size, dtype=self.dtype, device=self.device).expand(self.samples, size, size)
        return self.multiply(units) if size == self.inputs else self.multiply_transposed(units).mT

    def _transposed_graph(self) -> tuple[Tensor, Tensor]:
        if self._pulled is None:
            with torch.enable_grad():
                probe = torch.zeros_like(self._like_end, requires_grad=True)
                self._pulled = _pull(self._end, self._start, probe, create_graph=True), probe
        return self._pulled

    def _rows(self, vectors: Tensor, like: Tensor) -> Float[Tensor, "count samples *shape"]:
        rows = vectors.to(like).movedim(-1, 0)
        if self._token is None:
            return rows.reshape(-1, *like.shape)
        whole = like.new_zeros(len(rows), *like.shape)
        whole[:, :, self._token] = rows.reshape(len(rows), like.shape[0], -1)
        return whole

    def _columns(self, rows: Tensor, scaled: bool = False) -> Float[Tensor, "samples units count"]:
        rows = rows * self._slope if scaled and self._slope is not None else rows
        chosen = rows if self._token is None else rows[:, :, self._token]
        return chosen.flatten(start_dim=2).movedim(0, -1)

    def _mapped(self, function: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
        largest = max(self._like_start.numel(), self._like_end.numel())
        return torch.func.vmap(function, chunk_size=max(1, _CHUNK_ELEMENTS // largest))(rows)


def _pull(end: GradientEdge, start: GradientEdge, cotangent: Tensor, create_graph: bool) -> Tensor:
    (gradient,) = torch.autograd.grad(
        (end,), (start,), (cotangent,), retain_graph=True, create_graph=create_graph, materialize_grads=True
    )
    return gradient


def _slope(branch: Branch) -> Tensor | None:
    r"""$\sigma'$ at the sum: a backward pass of ones, because an activation works number by number."""
    if branch.summed is None:
        return None
    return _pull(branch.result.edge, branch.summed.edge, torch.ones_like(branch.result.value), create_graph=False)


def _refuse_token(branch: Branch, token: int) -> None:
    for shape in (branch.start.value.shape, branch.end.value.shape):
        if len(shape) != 3:
            raise ValueError(
                f"{branch.name} works on a tensor of shape {tuple(shape)}, which is not (samples, tokens, units): "
                "leave out token"
            )
        if not -shape[1] <= token < shape[1]:
            raise ValueError(f"{branch.name} has {shape[1]} tokens, so there is no token {token}")
