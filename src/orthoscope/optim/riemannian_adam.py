"""Adam on a manifold: one adaptive step length per matrix, and a transported first moment."""

from typing import Any, final

import torch
from torch import Tensor
from torch.optim.adam import adam

from orthoscope.linalg import nearest_frame
from orthoscope.manifolds import Stiefel
from orthoscope.optim._batching import Stack, frame_product, gradients, stacks
from orthoscope.optim._mixed import MixedOptimizer
from orthoscope.optim._validation import Group
from orthoscope.optim.manifold_groups import check_orthonormal

# Tangent part of the squared gradient below which its norm is computed from the tangent vector itself.
_CANCELLATION = 0.01
# Upper bound of the rounding error of a projection, in units of eps.
_NOISE = 32


@final
class RiemannianAdam(MixedOptimizer):
    r"""`torch.optim.Adam` for groups without a manifold; Riemannian Adam for weights $X$ on one, ambient gradient $G$.

    $$ g = \operatorname{grad}_X G, \qquad m \leftarrow \beta_1 P_X(m) + (1-\beta_1)\,g, \qquad
       v \leftarrow \beta_2 v + (1-\beta_2)\, \|g\|_X^2 / nk $$
    $$ Y = X - \eta\, \frac{m/(1-\beta_1^t)}{\sqrt{v/(1-\beta_2^t)} + \epsilon}, \qquad
       X \leftarrow Y(Y^\top Y)^{-1/2} $$

    $X$ is n x k. $P_X$ projects to the tangent space at $X$, which transports the moment from the previous point. The
    second moment is one number per matrix: one per entry would turn a tangent vector out of the tangent space. It is
    the mean square of an entry, so that `lr` is, as in Adam, about how far an entry moves. A step costs five products.

    Args:
        params: Parameters or groups; see `stiefel_parameter_groups` and `MixedOptimizer`.
        lr: $\eta$.
        betas: $(\beta_1, \beta_2)$.
        eps: $\epsilon$.
        weight_decay: For groups without a manifold; must be 0 on one.
        amsgrad: Use the largest $v$ so far.
        maximize: Ascend instead of descend.
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

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load as `MixedOptimizer` does; second moments of matrices stay in float32, to which torch would not keep."""
        super().load_state_dict(state_dict)
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            for parameter, index in zip(group["params"], saved["params"], strict=True):
                state = state_dict["state"].get(index, {}) if group["manifold"] is not None else {}
                for name in ("exp_avg_sq", "max_exp_avg_sq"):
                    if name in state:
                        wide = torch.promote_types(state[name].dtype, torch.float32)
                        self.state[parameter][name] = state[name].to(parameter.device, wide, copy=True)

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
            beta1=beta1,
            beta2=beta2,
            **{key: group[key] for key in ("amsgrad", "lr", "weight_decay", "eps", "maximize")},
        )

    def _manifold_step(self, group: Group, parameters: list[Tensor]) -> None:
        batched = group["batched"]
        for parameter in parameters:
            matrices = (parameter.shape[:-2].numel(),) if batched else ()
            real = parameter.real if parameter.is_complex() else parameter
            # One number a matrix, in float32 at least: float16 would lose it, bfloat16 would never let it decay.
            wide = torch.promote_types(real.dtype, torch.float32)
            self._prepare(parameter, real.new_zeros(matrices, dtype=wide), group["amsgrad"])
            self.state[parameter]["step"] += 1
        for stack in stacks(parameters, batched, lambda p: self.state[p]["step"].item()):
            x = stack.frames(stack.parameters)
            stack.write(nearest_frame(self._moved(group, stack, x)), stack.parameters)

    def _moved(self, group: Group, stack: Stack, x: Tensor) -> Tensor:
        """$Y$ of the formula; the stack's key is the number of the step, t."""
        manifold, (beta1, beta2) = group["manifold"], group["betas"]
        sign = -1 if group["maximize"] else 1
        gradient = stack.gradients()
        overlap = x.mH @ gradient
        normal = manifold.normal_coordinates(overlap)
        v = self._second_moment(group, stack, _mean_square(manifold, x, gradient, overlap, normal))
        first = self._states(stack, "exp_avg")
        m = stack.frames(first)
        # β₁P(m) + (1-β₁)grad G = β₁m + (1-β₁)G - XN: both projections by one product.
        moment_overlap = x.mH @ m
        normal = (moment_overlap + moment_overlap.mH) * (beta1 / 2) + normal * (sign * (1 - beta1))
        m = m.mul_(beta1).add_(gradient, alpha=sign * (1 - beta1)).sub_(frame_product(x, normal))
        stack.write(m, first)
        steps = stack.key
        size = (v / (1 - beta2**steps)).sqrt().add_(group["eps"]).mul_(1 - beta1**steps)
        return torch.addcmul(x, m, (group["lr"] / size).to(x.dtype)[..., None, None], value=-1)

    def _second_moment(self, group: Group, stack: Stack, mean_square: Tensor) -> Tensor:
        second = self._states(stack, "exp_avg_sq")
        beta2 = group["betas"][1]
        # Not `lerp`, which turns an infinite moment into nan.
        v = torch.add(stack.scalars(second) * beta2, mean_square, alpha=1 - beta2)
        stack.write_scalars(v, second)
        if group["amsgrad"]:
            largest = self._states(stack, "max_exp_avg_sq")
            v = torch.maximum(stack.scalars(largest), v)
            stack.write_scalars(v, largest)
        return v

    def _states(self, stack: Stack, name: str) -> list[Tensor]:
        return [self.state[parameter][name] for parameter in stack.parameters]

    def _prepare(self, parameter: Tensor, second_moment: Tensor, amsgrad: bool) -> None:
        state = self.state[parameter]
        if not state:
            # On the CPU, as torch keeps it.
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = second_moment
            if amsgrad:
                state["max_exp_avg_sq"] = second_moment.clone()


def _mean_square(manifold: Stiefel, x: Tensor, gradient: Tensor, overlap: Tensor, normal: Tensor) -> Tensor:
    r"""$\|\operatorname{grad} G\|_X^2 / nk$ from $S = X^\mathsf{H}G$, without a further product if nothing cancels.

    $$ \|\operatorname{grad} G\|^2 = \|G\|^2 - \|\tfrac12(S+S^\mathsf{H})\|^2, \qquad
       \text{canonical: } \|G\|^2 - \operatorname{Re}\operatorname{tr} S^2 $$

    To this $(32\,\varepsilon\|G\|)^2$ is added, the rounding error of the projection: at a constrained optimum the
    gradient is normal, its tangent part is noise, and dividing noise by its own size would give steps of full length.
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
    """The same from the tangent vector itself, in units of the largest entry, whose square may overflow."""
    size = gradient.abs().amax((-2, -1))
    unit = torch.where(size == 0, 1, size)[..., None, None]
    gradient = gradient / unit
    tangent = gradient - x @ (normal / unit)
    total = torch.linalg.matrix_norm(gradient).square()
    return _with_noise(manifold.inner(x, tangent, tangent), total, x) * size * size


def _with_noise(square: Tensor, total: Tensor, x: Tensor) -> Tensor:
    return (square + (_NOISE * torch.finfo(x.dtype).eps) ** 2 * total) / x.shape[-2:].numel()
