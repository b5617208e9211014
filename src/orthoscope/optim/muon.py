"""Steepest descent in the spectral norm: momentum, orthogonalised, for matrices; AdamW for the rest."""

from collections.abc import Callable
from functools import partial
from typing import Any, final, overload

import torch
from torch import Tensor
from torch.optim.optimizer import _get_scalar_dtype

from orthoscope.optim.manifold_groups import check_keys, check_options
from orthoscope.optim.matrix_stacks import orthogonalized_updates
from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.muon_elementwise import Tensors, adamw_step_, matrix_scale, momentum_updates, move_
from orthoscope.optim.muon_options import (
    Group,
    check_muon_options,
    check_process_group,
    default_rate,
    separated,
    with_our_names,
)
from orthoscope.optim.saved_states import check_entries, check_shapes
from orthoscope.optim.sharding.exchange import orthogonalized

# What a file must agree with, because the state means something else otherwise.
_STRUCTURE = ("use_muon", "views")


@final
class Muon(torch.optim.Optimizer):
    r"""Momentum, orthogonalised, for matrices $W$ with gradient $G$; `torch.optim.AdamW` for all other parameters.

    $$ B \leftarrow \mu B + (1 - \mu)\,G, \qquad
       N = \begin{cases} (1 - \mu)\,G + \mu B & \text{nesterov} \\ B & \text{else} \end{cases}, \qquad
       W \leftarrow (1 - \eta\lambda)\,W - \eta\, s\, \operatorname{orthogonalize}(N) $$

    `lr` is $\eta$, `momentum` $\mu$, `weight_decay` $\lambda$. `scale` names $s$, which depends on the shape of the
    matrix (`update_scale`): "original" $\sqrt{\max(1, \text{out}/\text{in})}$, "match_rms_adamw"
    $0.2\sqrt{\max(\text{out}, \text{in})}$ with which `lr` is as in AdamW, "rms_to_rms"
    $\sqrt{\text{out}/\text{in}}$ and "none" 1. `method`, `steps` and `dtype` (in which products are computed) are those
    of `linalg.orthogonalize`.

    **Rates.** `lr` is 0.02 and `adamw_lr` 3e-4 unless given. With "match_rms_adamw", which wants AdamW's rate, `lr` is
    3e-4 and `adamw_lr` is `lr`: one number for all. A group that sets this scale for itself sets its `lr` too.

    **Beside `torch.optim.Muon`.** With method "keller" the formula is the same; torch's differs in its defaults
    (weight decay 0.1, rate 0.001), in its products, always in bfloat16, and in that it divides by
    $\max(\|N\|_F, 10^{-7})$, so that gradients smaller than that move little; here their size does not matter.

    **Which parameters.** `Muon(muon_parameter_groups(model))` knows the layers: embeddings, norms, biases and the head
    go to AdamW, and fused query, key and value are three matrices. `Muon(model.parameters())` sees only shapes: vectors
    and scalars go to AdamW, all else to Muon, a convolution as `(out, in·k·k)`; embeddings and heads too, since they
    cannot be told from other matrices. A group that has both kinds becomes two. With `use_muon=False` a group follows
    AdamW, with `use_muon=True` Muon. Which matrices a parameter holds is said by `views=`, a `MatrixView` for the whole
    group or one for each parameter.

    Groups of AdamW have `adamw_lr` as their `lr` and `adamw_weight_decay` as their `weight_decay` unless they say
    otherwise, so that schedulers find every group's rate at the same place.

    **State.** `momentum_buffer` for Muon, `step`, `exp_avg` and `exp_avg_sq` for AdamW, each laid out as its parameter,
    a DTensor if that is one. `process_group` shares the work among ranks that hold the same parameters, as under
    DistributedDataParallel; it is not saved, and a copy or a pickle of the optimizer has none. Sharded parameters
    (`fully_shard`) bring their own.

    `p.grad` is never written to; parameters without a gradient are skipped; a gradient of another type than its
    parameter is converted; one that is nan makes its own matrix nan and no other. Under `torch.compile` give `lr` as a
    tensor if a scheduler changes it.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor | None = None,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        *,
        nesterov: bool = True,
        scale: str = "original",
        method: str = "auto",
        steps: int | None = None,
        dtype: torch.dtype | None = None,
        maximize: bool = False,
        process_group: Any = None,
        adamw_lr: float | Tensor | None = None,
        adamw_betas: tuple[float, float] = (0.9, 0.95),
        adamw_eps: float = 1e-8,
        adamw_weight_decay: float = 0.0,
    ) -> None:
        defaults = {
            "lr": default_rate(scale) if lr is None else lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "scale": scale,
            "method": method,
            "steps": steps,
            "dtype": dtype,
            "maximize": maximize,
            "use_muon": None,
            "views": None,
            "adamw_lr": adamw_lr,
            "adamw_betas": adamw_betas,
            "adamw_eps": adamw_eps,
            "adamw_weight_decay": adamw_weight_decay,
        }
        check_muon_options(defaults)
        check_options({"lr": 0.0 if adamw_lr is None else adamw_lr, "weight_decay": adamw_weight_decay})
        check_process_group(process_group)
        self.process_group = process_group
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = getattr(self, "process_group", None)

    def add_param_group(self, param_group: Group) -> None:
        """As `torch.optim.Optimizer`; `use_muon` and `views` are keys of a group; one with both kinds becomes two."""
        if not isinstance(param_group, dict):
            raise TypeError(f"a group is a dict with the key 'params', got {type(param_group).__name__}")
        super().add_param_group(dict(param_group))
        group = self.param_groups.pop()
        check_keys(group, self.defaults)
        check_muon_options(group)
        self.param_groups.extend(separated(group, given=param_group))

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
        prepared = []
        for group in self.param_groups:
            tensors = Tensors([], [], [], [], [], [], [])
            self._init_group(group, *tensors)
            prepared.append((group, tensors))
        # Groups that are computed alike are exchanged between ranks together: one round a step.
        together: dict[tuple[Any, ...], list[tuple[Group, Tensors]]] = {}
        for group, tensors in prepared:
            if group["use_muon"]:
                together.setdefault((group["method"], group["steps"], group["dtype"]), []).append((group, tensors))
            else:
                adamw_step_(group, tensors)
        for (method, steps, dtype), groups in together.items():
            compute = partial(orthogonalized_updates, method=method, steps=steps, dtype=dtype)
            self._muon_step(groups, compute)
        return loss

    def _muon_step(
        self,
        groups: list[tuple[Group, Tensors]],
        compute: Callable[[list[Tensor], list[MatrixView]], list[Tensor]],
    ) -> None:
        updates = [update for group, tensors in groups for update in momentum_updates(group, tensors)]
        plain = [view for _, tensors in groups for view in tensors.views]
        made = {view: MatrixView(*view) for view in dict.fromkeys(plain)}
        views = [made[view] for view in plain]
        # Ranks must have skipped the same ones: of two layers of one shape, shapes do not say which it was.
        everyone = [parameter for group, _ in groups for parameter in group["params"]]
        positions = [place for place, parameter in enumerate(everyone) if parameter.grad is not None]
        directions = orthogonalized(updates, views, compute, self.process_group, positions)
        start = 0
        for group, tensors in groups:
            end = start + len(tensors.parameters)
            move_(group, tensors, directions[start:end])
            start = end

    def _init_group(
        self,
        group: Group,
        parameters: list[Tensor],
        gradients: list[Tensor],
        first: list[Tensor],
        second: list[Tensor],
        steps: list[Tensor],
        views: list[tuple[Any, ...]],
        scales: list[float],
    ) -> None:
        """Append what has a gradient, and its state, to the lists; `torch.compile` knows the name and skips it."""
        use_muon, all_views, scale = group["use_muon"], group["views"], group["scale"]
        for place, parameter in enumerate(group["params"]):
            gradient = parameter.grad
            if gradient is None:
                continue
            if gradient.is_sparse:
                raise ValueError("Muon takes dense gradients, got a sparse one: use sparse=False")
            state = self.state[parameter]
            if not state and use_muon:
                state["momentum_buffer"] = torch.zeros_like(parameter)
            elif not state:
                state["step"] = torch.tensor(0.0, dtype=_get_scalar_dtype())  # on the CPU, as torch keeps it
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            parameters.append(parameter)
            # Of another type if `grad_dtype` says so; `to` makes a copy then, so nothing is written to `p.grad`.
            gradients.append(gradient if gradient.dtype == parameter.dtype else gradient.to(parameter.dtype))
            if use_muon:
                view = all_views[place]
                first.append(state["momentum_buffer"])
                views.append(view)
                scales.append(matrix_scale(scale, view, parameter.shape))
            else:
                first.append(state["exp_avg"])
                second.append(state["exp_avg_sq"])
                steps.append(state["step"])

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As `torch.optim.Optimizer`; which rule a group follows must agree with the file, and what it lacks stays.

        So the state of a `torch.optim.Muon` can be continued: its momentum is the same, and its options are
        translated, with method "keller"; `dtype` stays, so products are in bfloat16 only if this optimizer's are.
        A state of any other optimizer, or of parameters of other shapes, is refused.
        """
        groups = []
        for read, own in zip(state_dict["param_groups"], self.param_groups, strict=False):
            saved = with_our_names(read)
            for key in _STRUCTURE:
                if key in saved and _as_tuples(saved[key]) != _as_tuples(own[key]):
                    raise ValueError(
                        f"the state was saved with {key}={saved[key]} and this group has {own[key]}: build the"
                        " optimizer from the same parameter groups"
                    )
            kept = {key: value for key, value in own.items() if key not in ("params", "param_names")}
            # Some files hold lists where there were tuples, which are compared but cannot be looked up.
            groups.append({**kept, **saved, "views": own["views"]})
        check_entries(state_dict, self.param_groups)
        check_shapes(state_dict, self.param_groups)
        groups.extend(state_dict["param_groups"][len(groups) :])
        super().load_state_dict({**state_dict, "param_groups": groups})


def _as_tuples(value: Any) -> Any:
    return [tuple(item) for item in value] if isinstance(value, list | tuple) else value
