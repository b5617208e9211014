"""Stochastic gradient descent on a manifold, with transported momentum."""

from typing import final

import torch
from torch import Tensor

from orthoscope.linalg import nearest_frame
from orthoscope.optim._batching import Stack, frame_product, stacks
from orthoscope.optim._mixed import MixedSGD
from orthoscope.optim._validation import Group
from orthoscope.optim.manifold_groups import check_orthonormal

# Short steps between two retractions. A short step adds about one rounding error to XᵀX - I and removes none; the
# retraction removes all of it. The first step is a retraction, since a weight may start with such an error.
_SHORT_STEPS = 7

# Rows per column from which products of k x k matrices are cheap beside those with the n x k frame.
_TALL = 3

# Largest normal part of a step, as a row norm, that the cancellation in E tolerates.
_NORMAL = 1 / 32


@final
class RiemannianSGD(MixedSGD):
    r"""`torch.optim.SGD` for groups without a manifold; Riemannian SGD for weights $X$ on one, ambient gradient $G$.

    1. project: $m \leftarrow \mu\,P_X(m) + (1 - \tau)\operatorname{grad}_X G$, where $P_X$ projects to the tangent
       space at $X$, which transports the momentum, and $\operatorname{grad}_X$ is `Stiefel.riemannian_gradient`,
    2. move: $Y = X - \eta\, m$ (Nesterov: $X - \eta(\operatorname{grad}_X G + \mu m)$),
    3. retract: $X \leftarrow Y(Y^\top Y)^{-1/2}$, the polar retraction.

    In the Euclidean metric $P_X$ and $\operatorname{grad}_X$ are the same linear map, so that transport is free:
    $m \leftarrow P_X(\mu m + (1-\tau)G)$, and a step costs four products, or one or two more if it is long. Without
    momentum, seven of eight steps cost three as long as they are short (`short_step_`). The retraction is exact for
    steps of any length: no learning rate leaves the manifold.

    Args:
        params: Parameters or groups; see `stiefel_parameter_groups` and `MixedOptimizer`.
        lr: $\eta$.
        momentum: $\mu$.
        dampening: $\tau$; the first momentum is the whole gradient, as in torch.
        weight_decay: For groups without a manifold; must be 0 on one.
        nesterov: Use Nesterov's momentum.
        maximize: Ascend instead of descend.
    """

    def _check_start(self, group: Group, parameter: Tensor) -> None:
        check_orthonormal(group, parameter)

    def _manifold_step(self, group: Group, parameters: list[Tensor]) -> None:
        state = self.state
        if group["momentum"] == 0:
            taken = stacks(parameters, group["batched"], lambda p: int(state[p].get("short_steps", _SHORT_STEPS)))
            for stack in taken:
                self._plain_step(group, stack)
            return
        for stack in stacks(parameters, group["batched"], lambda p: "momentum_buffer" in state[p]):
            x = stack.frames(stack.parameters)
            moved = torch.add(x, self._direction(group, stack, x), alpha=-float(group["lr"]))
            stack.write(nearest_frame(moved), stack.parameters)

    def _plain_step(self, group: Group, stack: Stack) -> None:
        """One step without momentum; the stack's key counts short steps since the last retraction, up to the next one.

        Below 0 it counts the steps that are still retracted because one was too long.
        """
        manifold, taken = group["manifold"], stack.key
        rate = float(group["lr"]) * (-1 if group["maximize"] else 1)
        x, gradient = stack.frames(stack.parameters), stack.gradients()
        overlap = x.mH @ gradient
        may_be_short = manifold.metric == "euclidean" and 0 <= taken < _SHORT_STEPS
        is_short = may_be_short and short_step_(x, gradient, overlap, rate)
        if not is_short:
            direction = gradient - frame_product(x, manifold.normal_coordinates(overlap))
            x = nearest_frame(torch.add(x, direction, alpha=-rate))
        stack.write(x, stack.parameters)
        # Where a step was too long, finding out cost a product: the next ones are not tried either.
        count = taken + 1 if is_short or taken < 0 else -_SHORT_STEPS if may_be_short else 0
        for parameter in stack.parameters:
            self.state[parameter]["short_steps"] = count

    def _direction(self, group: Group, stack: Stack, x: Tensor) -> Tensor:
        """The tangent vector to move along; updates the momentum."""
        manifold, momentum = group["manifold"], group["momentum"]
        gradient = stack.gradients()
        sign = -1 if group["maximize"] else 1
        buffers = self._momentum_buffers(stack)
        m = stack.frames(buffers)
        weight = 1 - group["dampening"] if stack.key else 1  # the first momentum is the gradient, as in torch
        if manifold.metric == "euclidean" and not group["nesterov"]:
            direction = manifold.to_tangent_(x, m.mul_(momentum).add_(gradient, alpha=sign * weight))
        else:
            gradient = manifold.riemannian_gradient_(x, sign * gradient)
            direction = manifold.to_tangent_(x, m).mul_(momentum).add_(gradient, alpha=weight)
            if group["nesterov"]:
                direction = gradient.add_(m, alpha=momentum)
        stack.write(m, buffers)
        return direction


def short_step_(x: Tensor, gradient: Tensor, overlap: Tensor, rate: float) -> bool:
    r"""Move frames in place by $-\eta\xi$, $\xi = G - XS$ the Riemannian gradient, if that is a short step.

    With $X^\mathsf{H}G = S + \Omega$, Hermitian plus skew, projection, move and retraction become one product with the
    frame. For a square frame, where $\xi = X\Omega$, and for one at least three times as tall as wide,

    $$ X \leftarrow X(I - \eta\Omega + \tfrac12\eta^2\Omega^2), \qquad
       X \leftarrow X(I + \eta S - \tfrac12E + C) - \eta G, $$
    $$ E = \eta^2\xi^\mathsf{H}\xi = \eta^2\bigl(G^\mathsf{H}G - \tfrac12(B + B^\mathsf{H})\bigr), \quad
       B = S(S + 2\Omega), \qquad C = \tfrac14\eta(\Omega E - E\Omega). $$

    Both agree with the polar retraction to second order. They leave $X^\mathsf{H}X - I = \tfrac14(\eta\Omega)^4$ and
    $\eta(\Omega C - C\Omega) + (\tfrac12E - C)^2$. With $r$ the largest norm of a row, the entries of these are at most

    $$ \tfrac14\,r(\eta^2\Omega^2)^2, \qquad 2\,r(\eta\Omega)\,r(C) + r(\tfrac12E - C)^2, $$

    and a step is short if this bound is below $\varepsilon/2$. $C$ is omitted where
    $r(\eta\Omega)\,r(E) + \tfrac14r(E)^2 \le \varepsilon/2$, a bound of what is left then,
    $(\tfrac12E)^2 - \tfrac12\eta(\Omega E - E\Omega)$. A step with $r(\eta S) > \tfrac1{32}$ is not short either: an
    earlier deviation $D$ of $X$ becomes $(I + \eta S)D(I + \eta S)$, and $E$ is a difference that loses
    $\varepsilon\|\eta S\|^2$. A square frame keeps $D$ as it is.

    Args:
        x: Frames `(n, k)` or `(batch, n, k)`, overwritten if the step is short.
        gradient: The ambient gradient $G$.
        overlap: $X^\mathsf{H}G$.
        rate: The step length $\eta$.

    Returns:
        True if the step was taken; False if a frame has another shape or its step is not short, and `x` is unchanged.
    """
    rows, columns = x.shape[-2:]
    if rows != columns and rows < _TALL * columns:
        return False
    limit = torch.finfo(x.dtype).eps / 2
    skew = (overlap - overlap.mH) * (rate / 2)
    if rows == columns:
        # A diagonal entry of Ω² is a squared row norm of Ω: this bound needs no product.
        if not _largest_row(skew) ** 4 / 4 <= limit:
            return False
        square = skew @ skew
        if not _largest_row(square) ** 2 / 4 <= limit:
            return False
        x.sub_(frame_product(x, skew - square / 2))
        return True
    hermitian = (overlap + overlap.mH) * (rate / 2)
    if not _largest_row(hermitian) <= _NORMAL:
        return False
    correction = retraction_term(tangent_gram(gradient, hermitian, skew, rate), skew, limit)
    if correction is None:
        return False
    # The small terms are added first, so that the frame is rounded only once.
    x.add_(frame_product(x, hermitian + correction).sub_(gradient, alpha=rate))
    return True


def tangent_gram(gradient: Tensor, hermitian: Tensor, skew: Tensor, rate: float) -> Tensor:
    r"""$E = \eta^2\xi^\mathsf{H}\xi$ from `hermitian` $\eta S$ and `skew` $\eta\Omega$, without forming $\xi$."""
    cross = hermitian @ (hermitian + 2 * skew)
    return (gradient.mH @ gradient) * rate**2 - (cross + cross.mH) / 2


def retraction_term(gram: Tensor, skew: Tensor, limit: float) -> Tensor | None:
    r"""$C - \tfrac12E$ from $E$ and $\eta\Omega$, without $C$ where it is negligible; None if the step is not short."""
    turn, size = _largest_row(skew), _largest_row(gram)
    if turn * size + size**2 / 4 <= limit:
        return -gram / 2
    product = skew @ gram
    c = (product + product.mH) / 4  # (ΩE)ᴴ = -EΩ
    term = c - gram / 2
    return term if 2 * turn * _largest_row(c) + _largest_row(term) ** 2 <= limit else None


def _largest_row(matrix: Tensor) -> float:
    """The largest norm of a row in the whole batch; nan if there is one."""
    return float(torch.linalg.vector_norm(matrix, dim=-1).max()) if matrix.numel() else 0.0
