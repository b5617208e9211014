"""Adam along a manifold: one adaptive step length for each matrix, and a first moment that is transported."""

from typing import Any, final

import torch
from torch import Tensor
from torch.optim.adam import adam

from orthoscope.linalg.nearest_frame import nearest_frame
from orthoscope.linalg.products import add_product_, plus_adjoint
from orthoscope.manifolds import Stiefel
from orthoscope.optim.batching import Chunk, chunks, gradients, over_chunks
from orthoscope.optim.manifold_groups import check_orthonormal
from orthoscope.optim.mixed import Group, MixedOptimizer

# Where less than this part of the squared gradient is tangent, its norm is taken from the tangent vector itself.
_CANCELLATION = 0.01
_NOISE = 32  # roundings of a projection, with room to spare


@final
class RiemannianAdam(MixedOptimizer):
    r"""`torch.optim.Adam` for groups without a manifold; for weights $X$, n x k, on one, with ambient gradient $G$:

    $$ g = \operatorname{grad}_X G, \qquad m \leftarrow \beta_1 P_X(m) + (1-\beta_1)\,g, \qquad
       v \leftarrow \beta_2 v + (1-\beta_2)\, \|g\|_X^2 / nk $$
    $$ Y = X - \eta\, \frac{m/(1-\beta_1^t)}{\sqrt{v/(1-\beta_2^t)} + \epsilon}, \qquad
       X \leftarrow Y(Y^\top Y)^{-1/2} $$

    $P_X$ projects to the tangent space at $X$, which transports the moment from the point before. The second
    moment is one number a matrix, since a number an entry would turn a tangent vector out of the tangent
    space. It is the mean square of an entry, so that `lr` is, as in Adam, about how far an entry moves.

    `lr` is $\eta$; with `amsgrad` $v$ is the largest so far; see `MixedOptimizer` for groups. A step costs five
    products.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be at least 0 and less than 1, got {betas}")
        if not eps >= 0:
            raise ValueError(f"eps must be at least 0, got {eps}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _check_start(self, group: Group, parameter: Tensor) -> None:
        check_orthonormal(group, parameter)

    def _euclidean_step(self, group: Group, parameters: list[Tensor]) -> None:
        for parameter in parameters:
            self._prepare(parameter, torch.zeros_like(parameter), group["amsgrad"])
        states = [self.state[parameter] for parameter in parameters]
        beta1, beta2 = group["betas"]
        adam(
            parameters,
            gradients(parameters),
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else [],
            [state["step"] for state in states],
            has_complex=any(parameter.is_complex() for parameter in parameters),
            amsgrad=group["amsgrad"],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
        )

    def _manifold_step(self, group: Group, parameters: list[Tensor]) -> None:
        batched = group["batched"]
        for parameter in parameters:
            matrices = (parameter.shape[:-2].numel(),) if batched else ()
            real = parameter.real if parameter.is_complex() else parameter
            self._prepare(parameter, real.new_zeros(matrices), group["amsgrad"])
            self.state[parameter]["step"] += 1

        def step(chunk: Chunk) -> None:
            x = chunk.frames(chunk.parameters)
            chunk.write(nearest_frame(self._moved(group, chunk, x), out=x), chunk.parameters)

        over_chunks(step, chunks(parameters, batched, lambda p: self.state[p]["step"].item()))

    def _moved(self, group: Group, chunk: Chunk, x: Tensor) -> Tensor:
        manifold, (beta1, beta2) = group["manifold"], group["betas"]
        sign = -1 if group["maximize"] else 1
        gradient = chunk.frames(gradients(chunk.parameters))
        overlap = x.mH @ gradient
        normal = manifold.normal_coordinates(overlap)
        v = self._second_moment(group, chunk, _mean_square(manifold, x, gradient, overlap, normal))
        first = self._states(chunk, "exp_avg")
        m = chunk.frames(first)
        # β₁P(m) + (1-β₁)grad G = β₁m + (1-β₁)G - XN: both projections by one product.
        normal = plus_adjoint(x.mH @ m).mul_(beta1 / 2).add_(normal, alpha=sign * (1 - beta1))
        m = add_product_(m.mul_(beta1).add_(gradient, alpha=sign * (1 - beta1)), x, normal, alpha=-1.0)
        chunk.write(m, first)
        steps = chunk.alike
        size = (v / (1 - beta2**steps)).sqrt().add_(group["eps"]).mul_(1 - beta1**steps)
        return torch.addcmul(x, m, (group["lr"] / size).to(x.dtype)[..., None, None], value=-1)

    def _second_moment(self, group: Group, chunk: Chunk, mean_square: Tensor) -> Tensor:
        second = self._states(chunk, "exp_avg_sq")
        beta2 = group["betas"][1]
        # Not by lerp, which makes nan of a moment that is infinite already.
        v = torch.add(chunk.scalars(second) * beta2, mean_square, alpha=1 - beta2)
        chunk.write_scalars(v, second)
        if group["amsgrad"]:
            largest = self._states(chunk, "max_exp_avg_sq")
            v = torch.maximum(chunk.scalars(largest), v)
            chunk.write_scalars(v, largest)
        return v

    def _states(self, chunk: Chunk, name: str) -> list[Tensor]:
        return [self.state[parameter][name] for parameter in chunk.parameters]

    def _prepare(self, parameter: Tensor, second_moment: Tensor, amsgrad: bool) -> None:
        state = self.state[parameter]
        if not state:
            # A tensor on the CPU, as torch keeps it.
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = second_moment
            if amsgrad:
                state["max_exp_avg_sq"] = second_moment.clone()


def _mean_square(manifold: Stiefel, x: Tensor, gradient: Tensor, overlap: Tensor, normal: Tensor) -> Tensor:
    r"""$\|\operatorname{grad} G\|_X^2 / nk$ from $S = X^\mathsf{H}G$, without a product where nothing cancels.

    $$ \|\operatorname{grad} G\|^2 = \|G\|^2 - \|\tfrac12(S+S^\mathsf{H})\|^2, \qquad
       \text{canonical: } \|G\|^2 - \operatorname{Re}\operatorname{tr} S^2 $$

    To it $(32\,\varepsilon\|G\|)^2$ is added, the rounding of the projection: at a constrained optimum the gradient is
    normal, what is left of it is noise, and dividing noise by its own size would take steps of full length.
    """
    total = torch.linalg.matrix_norm(gradient).square()
    if manifold.metric == "euclidean":
        square = total - torch.linalg.matrix_norm(normal).square()
    else:
        square = total - (overlap.mT * overlap).sum((-2, -1)).real
    mean = _with_noise(square, total, x)
    sound = (square >= _CANCELLATION * total) & (total < torch.inf)
    if bool(sound.all()):
        return mean
    return torch.where(sound, mean, _mean_square_of_tangent(manifold, x, gradient, normal))


def _mean_square_of_tangent(manifold: Stiefel, x: Tensor, gradient: Tensor, normal: Tensor) -> Tensor:
    """The same from the tangent vector itself, in units of the largest entry, whose square may be no number."""
    size = gradient.abs().amax((-2, -1))
    unit = torch.where(size == 0, 1, size)[..., None, None]
    gradient = gradient / unit
    tangent = gradient - x @ (normal / unit)
    total = torch.linalg.matrix_norm(gradient).square()
    return _with_noise(manifold.inner(x, tangent, tangent), total, x) * size * size


def _with_noise(square: Tensor, total: Tensor, x: Tensor) -> Tensor:
    return (square + (_NOISE * torch.finfo(x.dtype).eps) ** 2 * total) / x.shape[-2:].numel()
