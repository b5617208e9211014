"""One optimizer for weights on a manifold and for everything else."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor

from orthoscope.optim.manifold_groups import check_group, check_keys, check_options
from orthoscope.optim.saved_states import check_shapes

Group = dict[str, Any]


class MixedOptimizer(torch.optim.Optimizer, ABC):
    """Groups with a `manifold` follow the Riemannian rule, groups without it the rule of `torch.optim`.

    A parameter on the manifold is read as a matrix: as it is if it has two dimensions, as `(out, in·k·k)` if it
    has more, and as a batch of matrices `(*batch, rows, columns)` if its group says `batched=True`. Tall and
    square matrices keep orthonormal columns, wide ones orthonormal rows. The first step with a gradient checks
    that they have them, and again after `load_state_dict`. A weight that is overwritten in between is taken back to the
    manifold by the steps that follow, without a word. float16 and bfloat16 are computed in float32 and rounded.

    Without any group on a manifold this is an optimizer of torch, and the first step warns. A group may hold keys of
    its own, as in torch, but none that looks like a slip for `manifold` or another option.

    `p.grad` is never written to. As in `torch.optim`, parameters without a gradient are skipped, and a gradient
    that is nan makes its parameter nan; it does not touch the others.
    """

    def __init__(self, params: Any, defaults: Group) -> None:
        check_options(defaults)
        self._checked: set[int] = set()
        self._stepped = False
        super().__init__(params, {"manifold": None, "batched": False, **defaults})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._checked = set()
        self._stepped = False

    def add_param_group(self, param_group: Group) -> None:
        """As `torch.optim.Optimizer`; `manifold=Stiefel()` and `batched=True` are keys of a group."""
        super().add_param_group(param_group)
        try:
            check_keys(self.param_groups[-1], self.defaults)
            check_options(self.param_groups[-1])
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
        """One step; a closure is evaluated first, with gradients, and its loss returned."""
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
                f"no group of this {type(self).__name__} has a manifold, so all parameters follow the plain rule of"
                " torch: build it with optim.stiefel_parameter_groups(model)",
                stacklevel=5,  # this method, step, and the two wrappers that torch puts around it
            )

    def _check_new(self, group: Group, parameters: list[Tensor]) -> None:
        for parameter in parameters:
            if id(parameter) not in self._checked:
                self._check_start(group, parameter)
                self._checked.add(id(parameter))

    def state_dict(self) -> dict[str, Any]:
        """As `torch.optim.Optimizer`; manifolds are written as text, so that `torch.load` needs no trust."""
        state = super().state_dict()
        for group in state["param_groups"]:
            group["manifold"] = group["manifold"] and repr(group["manifold"])
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As `torch.optim.Optimizer`; where weights live is decided by this optimizer and must agree with the file."""
        groups = [dict(group) for group in state_dict["param_groups"]]
        for group, own in zip(groups, self.param_groups, strict=False):
            manifold = own["manifold"]
            if group.get("manifold") != (manifold and repr(manifold)):
                raise ValueError(f"the state is of parameters on {group.get('manifold')}, these are on {manifold}")
            group["manifold"] = manifold
        check_shapes(state_dict, self.param_groups)
        super().load_state_dict({**state_dict, "param_groups": groups})
