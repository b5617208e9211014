"""What an optimizer does to the weights while a training loop runs, which does not notice."""

import json
import os
import weakref
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from orthoscope.diagnosis.document import environment, finite
from orthoscope.diagnosis.update_row import UpdateRow, update_numbers
from orthoscope.diagnosis.watch_table import watch_table
from orthoscope.optim.layer_views import layer_views
from orthoscope.optim.matrix_views import MatrixView
from orthoscope.probe.names import unwrapped
from orthoscope.report.documents import replace

SCHEMA = "orthoscope.watch/1"


def watch(
    model: nn.Module,
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    every: int = 200,
    *,
    largest: int = 4096,
) -> "Watch":
    """Record what every `every`-th optimizer step, beginning with the first, does to the matrices of `model`.

    `with watch(model) as w:` around any training loop; `w.rows` holds the numbers, `print(w)` a table of the latest.
    Training is the same to the last bit, and other steps cost nothing but a count. A recorded step keeps a copy of
    the matrices while it lasts.

    Without `optimizer`, every optimizer that moves parameters of the model is watched, also one made later; of
    nested ones the outermost. Which matrices a parameter holds is said by the optimizer, if that is `Muon`, else by
    its layer. Matrices of more than `largest` rows are skipped, because every pair of rows is compared; `w.skipped`
    says what was skipped and why. Sharded parameters are gathered on recorded steps, so every
    rank must watch.
    """
    return Watch(model, optimizer, every, largest)


@dataclass(frozen=True)
class _Began:
    """A recorded step that has begun: the matrices before it, by name, and how many rows there were."""

    weights: dict[str, tuple[nn.Parameter, MatrixView, Tensor]]
    rows: int


class Watch:
    """Rows recorded while the context is open; see `watch`."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer | Iterable[Optimizer] | None, every: int, largest: int
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"weights are watched in an nn.Module, got {type(model).__name__}: pass the model")
        if every < 1:
            raise ValueError(f"every counts steps from 1, got {every}")
        self.model = unwrapped(model)
        self.every = every
        self.largest = largest
        self.rows: list[UpdateRow] = []
        self.skipped: dict[str, str] = {}
        self._optimizers = _optimizers(optimizer)
        self._handles: list[RemovableHandle] = []
        self._taken: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._began: weakref.WeakKeyDictionary[Optimizer, _Began] = weakref.WeakKeyDictionary()

    def __enter__(self) -> "Watch":
        if self._handles:
            raise RuntimeError("this watch is running already: leave its context first, or make another one")
        # A compiled step calls them as they are.
        before, after = torch.compiler.disable(self._before), torch.compiler.disable(self._after)
        if self._optimizers is None:
            self._handles = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
        for optimizer in self._optimizers or ():
            self._handles.append(optimizer.register_step_pre_hook(before))
            self._handles.append(optimizer.register_step_post_hook(after))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._began.clear()

    def _before(self, optimizer: Optimizer, *_: Any) -> None:
        if self._taken.get(optimizer, 0) % self.every == 0:
            weights = {
                name: (parameter, view, _matrices(parameter, view).clone())
                for name, parameter, view in self._watched(optimizer)
            }
            self._began[optimizer] = _Began(weights, len(self.rows))

    def _after(self, optimizer: Optimizer, *_: Any) -> None:
        self._taken[optimizer] = self._taken.get(optimizer, 0) + 1
        began = self._began.pop(optimizer, None)
        if began is not None:
            # What an optimizer inside this one has recorded is part of this step.
            self.rows[began.rows :] = [
                row for row in self.rows[began.rows :] if row.weight.partition("[")[0] not in began.weights
            ]
            for name, (parameter, view, before) in began.weights.items():
                self._record(optimizer, name, parameter, view, before)

    def _watched(self, optimizer: Optimizer) -> Iterable[tuple[str, nn.Parameter, MatrixView]]:
        """The matrices that the optimizer moves; tied ones once, under their first name."""
        moved = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        known, chosen = layer_views(self.model), _views_of_groups(optimizer)
        for name, parameter in self.model.named_parameters():
            if id(parameter) not in moved or parameter.ndim < 2 or not parameter.requires_grad:
                continue
            view = chosen.get(id(parameter), known.get(name))
            reason = self._reason_to_skip(name, parameter, view)
            if reason:
                self.skipped[name] = reason
            else:
                yield name, parameter, view or MatrixView()

    def _reason_to_skip(self, name: str, parameter: nn.Parameter, view: MatrixView | None) -> str:
        if "parametrizations" in name.split("."):
            return "coordinates of a parametrized weight"
        if not parameter.is_floating_point():
            return f"numbers of type {parameter.dtype}"
        if parameter.ndim > 2 and view is None:
            return f"{parameter.ndim} dimensions, and no layer is known that multiplies by it"
        rows = _rows(parameter, view or MatrixView())
        if rows > self.largest:
            return f"{rows} rows: more than largest={self.largest}"
        return ""

    @torch.no_grad()
    def _record(
        self, optimizer: Optimizer, name: str, parameter: nn.Parameter, view: MatrixView, before: Tensor
    ) -> None:
        after = _matrices(parameter, view)
        if parameter.grad is None and torch.equal(before, after):
            return  # not reached by this loss
        gradient = None if parameter.grad is None else _matrices(parameter.grad, view)
        step, who = self._taken[optimizer], type(optimizer).__name__
        numbers = update_numbers(before, after, gradient)
        for place, measured in enumerate(numbers):
            weight = name if len(numbers) == 1 else f"{name}[{place}]"
            self.rows.append(UpdateRow(step, who, weight, (after.shape[-2], after.shape[-1]), **measured))  # type: ignore[arg-type]

    def document(self) -> dict[str, Any]:
        """Everything as plain data, in a versioned schema: what is undefined or infinite is null."""
        return {
            "schema": SCHEMA,
            "name": type(self.model).__name__,
            "every": self.every,
            "rows": [_plain(row) for row in self.rows],
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped.items()],
            "environment": environment(),
        }

    def to_json(self) -> str:
        """The document as strict JSON: no nan, no infinity."""
        return json.dumps(self.document(), allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `.json`, whole or not at all."""
        target = Path(path)
        if target.suffix.lower() != ".json":
            raise ValueError(f"cannot write a watch to {str(path)!r}: the name must end in .json")
        if not target.parent.is_dir():
            raise FileNotFoundError(f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}")
        replace(target, self.to_json() + "\n")

    def table(self, step: int | None = None) -> str:
        """One line a matrix, of that step or of the latest recorded, as plain text."""
        return watch_table(self.document(), step)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        state = "running" if self._handles else "not running"
        weights = len({row.weight for row in self.rows})
        return f"<Watch of {type(self.model).__name__}: {len(self.rows)} rows of {weights} matrices, {state}>"


def _optimizers(given: Optimizer | Iterable[Optimizer] | None) -> list[Optimizer] | None:
    if given is None:
        return None
    optimizers = [given] if isinstance(given, Optimizer) else list(given)
    for optimizer in optimizers:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"steps of a torch.optim.Optimizer are watched, got {type(optimizer).__name__}")
    return optimizers


def _views_of_groups(optimizer: Optimizer) -> dict[int, MatrixView]:
    """What the groups of `Muon` say of their parameters, by id."""
    return {
        id(parameter): MatrixView(*view)
        for group in optimizer.param_groups
        if group.get("use_muon") and group.get("views")
        for parameter, view in zip(group["params"], group["views"], strict=True)
    }


def _rows(parameter: Tensor, view: MatrixView) -> int:
    """How many rows are compared with one another; see `_matrices`."""
    count, rows, _ = view.shape(parameter.shape)
    return count if rows == 1 else rows


@torch.no_grad()
def _matrices(tensor: Tensor, view: MatrixView) -> Tensor:
    """The matrices `(count, out, in)` of a whole tensor, gathered if it is sharded."""
    whole: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor.detach()
    matrices = view.matrices(whole.to_dense() if whole.is_sparse else whole)
    # Depthwise filters are matrices of one row; together they are vectors that can be compared.
    return matrices.flatten(0, 1)[None] if matrices.shape[1] == 1 else matrices


def _plain(row: UpdateRow) -> dict[str, Any]:
    plain = {name: finite(value) if isinstance(value, float) else value for name, value in asdict(row).items()}
    return {**plain, "shape": list(row.shape), "spectrum": [finite(value) for value in row.spectrum]}
