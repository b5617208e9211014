"""Bases of the optimizers in which some parameter groups are on a manifold and the others are not."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from orthoscope.linalg.precision import full_precision
from orthoscope.optim._batching import Stack, gradients
from orthoscope.optim._validation import Group, check_keys, check_rates, check_shapes
from orthoscope.optim.manifold_groups import check_group


class MixedOptimizer(torch.optim.Optimizer, ABC):
    """Groups with a `manifold` follow the Riemannian rule, groups without one the rule of `torch.optim`.

    A parameter on the manifold is read as a matrix: as it is if it has two dimensions, as `(out, in·k·k)` if it has
    more, and as a batch of matrices `(*batch, rows, columns)` if its group has `batched=True`. Tall and square matrices
    keep orthonormal columns, wide ones orthonormal rows. This is checked at the first step with a gradient, and again
    after `load_state_dict`; a weight that is overwritten in between returns to the manifold during the next steps.
    float16 and bfloat16 parameters are computed in float32 and rounded.

    If no group has a manifold, the first step warns. A group may hold keys of its own, as in torch, except one that
    looks like a misspelled option.

    `p.grad` is never modified. As in `torch.optim`, parameters without a gradient are skipped, and a gradient with nan
    makes its own parameter nan and no other.
    """

    def __init__(self, params: Any, defaults: Group) -> None:
        check_rates(defaults)
        self._checked: set[int] = set()
        self._stepped = False
        super().__init__(params, {"manifold": None, "batched": False, **defaults})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._checked = set()
        self._stepped = False

    def add_param_group(self, param_group: Group) -> None:
        """Add a group as `torch.optim.Optimizer` does; `manifold=Stiefel()` and `batched=True` are keys of a group."""
        super().add_param_group(param_group)
        try:
            check_keys(self.param_groups[-1], self.defaults)
            check_rates(self.param_groups[-1])
            check_group(self.param_groups[-1])
        except (TypeError, ValueError):
            del self.param_groups[-1]
            raise

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Take one step; a closure is evaluated first, with gradients enabled, and its loss returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._stepped:
            self._stepped = True
            self._warn_without_manifold()
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if any(parameter.grad.is_sparse for parameter in parameters):
                raise ValueError(f"{type(self).__name__} takes dense gradients, got a sparse one: use sparse=False")
            if not parameters:
                continue
            # Under autocast products would be rounded to half precision, and a step end half taken.
            with full_precision(parameters[0].device.type):
                if group["manifold"] is None:
                    self._euclidean_step(group, parameters)
                else:
                    self._check_new(group, parameters)
                    self._manifold_step(group, parameters)
        return loss

    @abstractmethod
    def _check_start(self, group: Group, parameter: Tensor) -> None: ...

    @abstractmethod
    def _euclidean_step(self, group: Group, parameters: list[Tensor]) -> None: ...

    @abstractmethod
    def _manifold_step(self, group: Group, parameters: list[Tensor]) -> None: ...

    def _warn_without_manifold(self) -> None:
        if all(group["manifold"] is None for group in self.param_groups):
            warnings.warn(
                f"no group of this {type(self).__name__} has a manifold, so that all parameters follow the plain rule"
                " of torch: build it with optim.stiefel_parameter_groups(model)",
                stacklevel=5,  # this method, step, and the two wrappers that torch puts around it
            )

    def _check_new(self, group: Group, parameters: list[Tensor]) -> None:
        for parameter in parameters:
            if id(parameter) not in self._checked:
                self._check_start(group, parameter)
                self._checked.add(id(parameter))

    def state_dict(self) -> dict[str, Any]:
        """Return the state as `torch.optim.Optimizer` does, manifolds as text so that `weights_only` loading works."""
        state = super().state_dict()
        for group in state["param_groups"]:
            group["manifold"] = group["manifold"] and repr(group["manifold"])
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load as `torch.optim.Optimizer` does; manifolds and shapes of this optimizer must agree with the state's.

        Raises:
            ValueError: if a group has another manifold, or a parameter another shape; nothing is loaded then.
        """
        groups = [dict(group) for group in state_dict["param_groups"]]
        for group, own in zip(groups, self.param_groups, strict=False):
            manifold = own["manifold"]
            if group.get("manifold") != (manifold and repr(manifold)):
                raise ValueError(
                    f"the state is of parameters on {group.get('manifold')}, these are on {manifold}: build the"
                    " optimizer from the same groups"
                )
            group["manifold"] = manifold
        check_shapes(state_dict, self.param_groups)
        super().load_state_dict({**state_dict, "param_groups": groups})


class MixedSGD(MixedOptimizer):
    """Groups without a manifold follow `torch.optim.SGD`, whose options groups on one have too."""

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        if not momentum >= 0:
            raise ValueError(f"momentum must be at least 0, got {momentum}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                f"Nesterov's momentum needs momentum > 0 and dampening 0, got momentum={momentum} and"
                f" dampening={dampening}: change them, or set nesterov=False"
            )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _euclidean_step(self, group: Group, parameters: list[Tensor]) -> None:
        buffers = [self.state[parameter].get("momentum_buffer") for parameter in parameters]
        options = {key: group[key] for key in ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")}
        sgd(parameters, gradients(parameters), buffers, **options, has_sparse_grad=False)
        if group["momentum"] != 0:
            for parameter, buffer in zip(parameters, buffers, strict=True):
                self.state[parameter]["momentum_buffer"] = buffer

    def _momentum_buffers(self, stack: Stack) -> list[Tensor]:
        """The momentum of each parameter of a stack, created as zeros if there is none."""
        for parameter in stack.parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return [self.state[parameter]["momentum_buffer"] for parameter in stack.parameters]
