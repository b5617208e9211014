"""Muon: steepest descent in the spectral norm. Orthogonalized momentum for matrices, AdamW for all other parameters."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final, overload

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim.adamw import adamw
from torch.optim.optimizer import _get_scalar_dtype

from orthoscope.linalg import orthogonalize
from orthoscope.optim._batching import equal_shapes
from orthoscope.optim._validation import Group, check_keys, check_rates
from orthoscope.optim.muon._options import ADAMW_RATE, check_muon_options, loadable_groups, separated
from orthoscope.optim.muon.views import MatrixView, update_scale

# The options of a group that `linalg.orthogonalize` takes.
METHOD = ("method", "steps", "dtype")


@final
class Muon(torch.optim.Optimizer):
    r"""Orthogonalized momentum for matrices $W$ with gradient $G$; `torch.optim.AdamW` for all other parameters.

    $$ B \leftarrow \mu B + (1 - \mu)\,G, \qquad
       N = \begin{cases} (1 - \mu)\,G + \mu B & \text{nesterov} \\ B & \text{else} \end{cases}, \qquad
       W \leftarrow (1 - \eta\lambda)\,W - \eta\, s\, \operatorname{orthogonalize}(N) $$

    **Which parameters.** `Muon(muon_parameter_groups(model))` knows the layers: embeddings, norms, biases and the head
    go to AdamW, and fused query, key and value are three matrices. `Muon(model.parameters())` knows only shapes:
    vectors and scalars go to AdamW, all else to Muon, a convolution as `(out, in·k·k)`; embeddings and heads too, since
    they look like other matrices. A group that has both kinds becomes two. The keys `use_muon` (True: Muon, False:
    AdamW) and `views` (a `MatrixView`, or one per parameter) of a group decide instead.

    **State.** `momentum_buffer` for Muon; `step`, `exp_avg` and `exp_avg_sq` for AdamW. Each is sharded as its
    parameter is. `p.grad` is never modified; parameters without a gradient are skipped; a gradient of another type is
    converted to its parameter's; one with nan makes its own matrix nan and no other. Under `torch.compile` give `lr` as
    a tensor if a scheduler changes it.

    **Beside `torch.optim.Muon`.** With method "keller" the formula is the same. torch's differs in its defaults (weight
    decay 0.1, rate 0.001), in its products, always in bfloat16, and in that it divides by $\max(\|N\|_F, 10^{-7})$, so
    that gradients smaller than that move little; here their size does not matter.

    Args:
        params: Parameters or groups, as for `torch.optim.Optimizer`; all groups can also set the options below.
        lr: $\eta$. Default: 0.02, or 3e-4 with the scale "match_rms_adamw". A group that sets this scale for itself
            sets its `lr` too.
        momentum: $\mu$.
        weight_decay: $\lambda$.
        nesterov: Use Nesterov's momentum.
        scale: $s$ as a function of the matrix's shape: "original" $\sqrt{\max(1, \text{out}/\text{in})}$,
            "match_rms_adamw" $0.2\sqrt{\max(\text{out}, \text{in})}$, with which `lr` is as in AdamW, "rms_to_rms"
            $\sqrt{\text{out}/\text{in}}$, or "none" 1.
        method: As in `linalg.orthogonalize`.
        steps: As in `linalg.orthogonalize`.
        dtype: As in `linalg.orthogonalize`: the type in which products are computed.
        maximize: Ascend instead of descend.
        process_group: Processes that hold the same parameters, as under DistributedDataParallel, and share the work. It
            is not saved, copied or pickled. Sharded parameters (`fully_shard`) have a mesh instead and need none.
        adamw_lr: `lr` of groups of AdamW. Default: 3e-4, or `lr` with the scale "match_rms_adamw".
        adamw_betas: `betas` of AdamW.
        adamw_eps: `eps` of AdamW.
        adamw_weight_decay: `weight_decay` of groups of AdamW.

    Raises:
        TypeError: If a parameter is complex or not floating, or an option has a wrong type.
        ValueError: If an option is out of range or misspelled, or a parameter does not hold the matrices of its view.

    Example:
        >>> model = orthoscope.models.MLP(depth=4, width=16)
        >>> optimizer = orthoscope.optim.Muon(orthoscope.optim.muon_parameter_groups(model), lr=0.02)
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
            "lr": (ADAMW_RATE if scale == "match_rms_adamw" else 0.02) if lr is None else lr,
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
        check_rates({"lr": 0.0 if adamw_lr is None else adamw_lr, "weight_decay": adamw_weight_decay})
        if process_group is not None and not isinstance(process_group, dist.ProcessGroup):
            raise TypeError(
                f"process_group must be a group of torch.distributed, or None, got {process_group!r}: pass"
                " torch.distributed.group.WORLD after init_process_group"
            )
        self.process_group = process_group
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = getattr(self, "process_group", None)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group as `torch.optim.Optimizer` does; one with both kinds of parameters becomes two."""
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
        """Take one step; a closure is evaluated first, with gradients enabled, and its loss returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        prepared = []
        for group in self.param_groups:
            tensors = Tensors([], [], [], [], [], [], [])
            self._init_group(group, *tensors)
            prepared.append((group, tensors))
        matrices = [(group, tensors) for group, tensors in prepared if group["use_muon"]]
        for group, tensors in prepared:
            if not group["use_muon"]:
                adamw_step_(group, tensors)
        if self.process_group is not None or any(tensors.has_dtensors() for _, tensors in matrices):
            # Imported here, so that a single process never loads it.
            from orthoscope.optim.muon.distributed.exchange import distributed_step_

            distributed_step_(matrices, self.process_group)
        else:
            for group, tensors in matrices:
                muon_step_(group, tensors)
        return loss

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
        """Append parameters with a gradient, and their state, to the lists.

        `torch.compile` runs a method of this name outside of the graph and reads the lists afterwards.
        """
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
            # Of another type if `grad_dtype` was set; `to` copies then, so that `p.grad` is not modified.
            gradients.append(gradient if gradient.dtype == parameter.dtype else gradient.to(parameter.dtype))
            if use_muon:
                view = all_views[place]
                first.append(state["momentum_buffer"])
                views.append(view)
                scales.append(update_scale(scale, view, parameter.shape))
            else:
                first.append(state["exp_avg"])
                second.append(state["exp_avg_sq"])
                steps.append(state["step"])

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load as `torch.optim.Optimizer` does; options that the state lacks keep their values.

        The state of a `torch.optim.Muon` can be continued: its momentum is the same and its options are translated,
        with method "keller"; `dtype` stays, so that products are in bfloat16 only if this optimizer's are.

        Raises:
            ValueError: If the state was saved by another optimizer, for other rules or views, or for parameters of
                other shapes; nothing is loaded then.
        """
        groups = loadable_groups(state_dict, self.param_groups)
        super().load_state_dict({**state_dict, "param_groups": groups})


class Tensors(NamedTuple):
    """The parameters of a group that have a gradient, and their state; `first` is the momentum or first moment."""

    parameters: list[Tensor]
    gradients: list[Tensor]
    first: list[Tensor]
    second: list[Tensor]  # of AdamW
    steps: list[Tensor]  # of AdamW
    views: list[tuple[Any, ...]]  # of Muon
    scales: list[float]  # of Muon

    def select(self, places: Sequence[int]) -> "Tensors":
        """The entries at these places; lists that the group's rule does not have are empty."""
        return Tensors._make([entries[place] for place in places] if entries else [] for entries in self)

    def has_dtensors(self) -> bool:
        """Whether a parameter is a DTensor, read off its type so that DTensor need not be imported."""
        return any(hasattr(kind, "device_mesh") for kind in set(map(type, self.parameters)))


def muon_step_(group: Group, tensors: Tensors) -> None:
    """One step of Muon on plain tensors, stack by stack: only the temporaries of one stack exist at a time."""
    for places in equal_shapes(tensors.parameters, tensors.views):
        _stack_step_(group, tensors.select(places))  # a function, so that its tensors are freed before the next stack


def _stack_step_(group: Group, stack: Tensors) -> None:
    """The step for parameters of one shape and view, and so of one scale."""
    method = {key: group[key] for key in METHOD}
    directions = orthogonalized_stack(momentum_updates(group, stack), MatrixView(*stack.views[0]), method)
    move_(group, stack.parameters, directions, stack.scales[0])


def orthogonalized_stack(updates: Sequence[Tensor], view: MatrixView, method: Group) -> list[Tensor]:
    """New tensors, every matrix by `linalg.orthogonalize`, for updates of one shape, type, device and view."""
    shape = updates[0].shape
    if shape.numel() == 0:
        return [update.clone() for update in updates]
    own = [view.matrices(update) for update in updates]
    done = orthogonalize(own[0] if len(own) == 1 else torch.cat(own), **method)
    return [view.assemble(whole, shape) for whole in done.split(len(own[0]))]


def momentum_updates(group: Group, tensors: Tensors) -> list[Tensor]:
    r"""Update the momentum $B$ and return $N$: with `nesterov` new tensors, else the momentum itself."""
    torch._foreach_lerp_(tensors.first, tensors.gradients, 1 - group["momentum"])
    if not group["nesterov"]:
        return tensors.first
    return list(torch._foreach_lerp(tensors.gradients, tensors.first, group["momentum"]))


def move_(group: Group, parameters: list[Tensor], directions: list[Tensor], scale: float) -> None:
    r"""$W \leftarrow (1 - \eta\lambda) W - \eta s D$; `directions` may be overwritten."""
    lr = group["lr"].squeeze() if torch.is_tensor(group["lr"]) else group["lr"]
    rate = -lr if group["maximize"] else lr
    if group["weight_decay"] != 0:
        torch._foreach_mul_(parameters, 1 - lr * group["weight_decay"])
    if torch.is_tensor(rate):
        # Not `float(rate)`, which would synchronize with the device and make the rate a constant of a compiled step.
        torch._foreach_mul_(directions, rate * scale)
        torch._foreach_sub_(parameters, directions)
    else:
        torch._foreach_add_(parameters, directions, alpha=-rate * scale)


def adamw_step_(group: Group, tensors: Tensors) -> None:
    """One step of `torch.optim.AdamW`."""
    beta1, beta2 = group["adamw_betas"]
    adamw(
        tensors.parameters,
        tensors.gradients,
        tensors.first,
        tensors.second,
        [],
        tensors.steps,
        amsgrad=False,
        beta1=beta1,
        beta2=beta2,
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["adamw_eps"],
        maximize=group["maximize"],
    )
