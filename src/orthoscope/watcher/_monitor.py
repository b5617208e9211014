"""Every step of a watched training: its loss, whether it is finite, and how large its update is."""

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer

from orthoscope.probe.samples import Call, tensors_in
from orthoscope.report.document import WatchWarning
from orthoscope.watcher import _backward
from orthoscope.watcher._learning_rate import Alarm, LossJudge
from orthoscope.watcher._nonfinite import Origin, bad_weights, origin_of_gradients, origin_of_output
from orthoscope.watcher._readings import Readings
from orthoscope.watcher._step_sizes import StepSizes, largest_gradient

Kind = Literal["loss", "gradient", "weights", "learning rate"]


class StepMonitor:
    """Reads loss, gradient and update size at every step, and warns of what is wrong.

    The loss is the scalar at which a backward pass starts that reaches the model's output; passes between two steps are
    added, as their gradients are. It is read on the host at once on a CPU, and when its copy has arrived elsewhere.

    Args:
        model: The model as it is called.
        warn: Called with every warning, and whether it is a reason to stop: a spike of the loss may recover.
        wait: Wait for the loss and the largest gradient of every step, so that on an accelerator too what is not
            finite is found before the optimizer's step.
    """

    def __init__(self, model: nn.Module, warn: Callable[[WatchWarning, bool], None], wait: bool = False) -> None:
        self._model, self._warn, self._wait = model, warn, wait
        self.judge = LossJudge()
        self.losses: list[tuple[int, float]] = []
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        self._sizes = StepSizes(model)
        self._loss_readings, self._size_readings = Readings(wait), Readings(wait)
        self._pending: Tensor | None = None  # the sum of the losses since the last step
        self._given = False  # the loop itself tells the loss
        self._reached = False  # the backward pass that runs has come to the model's output
        self._scale: Tensor | None = None  # the factor of a gradient scaler in that pass
        self._within_step = False  # a step of the optimizer runs, perhaps with a closure
        self._closure_told = False  # the closure has had a loss
        self._call: Call | None = None
        self._autocast: tuple[str, bool, torch.dtype] | None = None
        self._optimizer: weakref.ref[Optimizer] | None = None
        self._step = 0
        self._warned: set[str] = set()  # kinds of which nothing more is said
        self._suggested = math.inf  # the least learning rate that was suggested
        self._told: set[tuple[str, bool]] = set()
        self._undefined: set[str] | None = None  # matrices that were zero at the first step
        self._last_sizes: dict[str, float] = {}

    def start(self) -> None:
        """Listen to backward passes."""
        _backward.listen(self)

    def close(self) -> None:
        """Stop listening, read what is under way, and free the last batch."""
        _backward.leave(self)
        self._call = self._pending = None
        self._read(all_of_them=True)
        self._sizes.forget()

    def forward_begins(self, call: Call) -> None:
        """Keep a reference to the batch, and how autocast is set."""
        self._call = call
        first = next(tensors_in((call.args, dict(call.kwargs))), None)
        device = "cpu" if first is None else first.device.type
        self._autocast = (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))

    def forward_ends(self, output: Any) -> None:
        """Note from now on whether a backward pass reaches this output."""
        for tensor in tensors_in(output):
            if tensor.requires_grad:
                tensor.register_hook(self._note)

    def _note(self, _: Tensor) -> None:
        self._reached = True

    def before_backward(self, root: Tensor) -> None:
        """Read from the graph, while it is whole, what the loss is made of."""
        self._reached, self._scale = False, _backward.scale_of(root)
        if self.judge.classes is None and not self._given:
            self.judge.classes = _backward.classes_of(root) or 0

    def after_backward(self, root: Tensor) -> None:
        """Take the root for a loss of this step, if the pass has reached the model."""
        if self._reached and not self._given:
            self._add(root.detach() if self._scale is None else root.detach() / self._scale)
        self._reached = False

    def tell(self, loss: Tensor | float) -> None:
        """Take the loss that the loop gives; roots of backward passes are no longer read."""
        if not self._given:
            self._given, self._pending = True, None
        self._add(loss.detach() if isinstance(loss, Tensor) else torch.tensor(float(loss)))

    def _add(self, loss: Tensor) -> None:
        if self._within_step and self._closure_told:
            return  # a line search calls its closure several times
        self._closure_told = self._within_step
        self._pending = loss if self._pending is None else self._pending + loss
        if self._within_step:
            self._check_finite()

    def before_step(self, step: int, optimizer: Optimizer) -> None:
        """Compare the weights with those before the last step, and check loss and gradient while both are new."""
        self._step, self._within_step, self._closure_told = step, True, False
        self._optimizer = weakref.ref(optimizer)
        sizes = self._sizes.next()
        if sizes is not None:
            self._size_readings.put(step - 1, sizes)
        self._read()
        if self._pending is not None:
            self._check_finite()

    def after_step(self, step: int) -> None:
        """Send the loss of the step to the host, and judge what has arrived."""
        self._within_step = False
        if self._pending is not None:
            self._loss_readings.put(step, self._pending.reshape(1))
        self._pending = None
        self._read()

    def _check_finite(self) -> None:
        """Look for nan and infinity before the optimizer spreads them, where that makes nobody wait."""
        assert self._pending is not None
        if not (self._wait or self._pending.device.type == "cpu"):
            return
        loss = float(self._pending)
        if not math.isfinite(loss):
            self._loss_is_not_finite(self._step, loss)
            return
        largest = largest_gradient(self._parameters)
        if largest is not None and not math.isfinite(float(largest)):
            self._gradient_is_not_finite(float(largest))

    def _read(self, all_of_them: bool = False) -> None:
        for _, sizes in self._size_readings.arrived(all_of_them):
            self._take_sizes(sizes)
        for step, (loss,) in self._loss_readings.arrived(all_of_them):
            self.losses.append((step, loss))
            if not math.isfinite(loss):
                self._loss_is_not_finite(step, loss)
            elif alarm := self.judge.add_loss(loss):
                self._learning_rate(step, alarm)

    def _take_sizes(self, sizes: Sequence[float]) -> None:
        named = dict(zip(self._sizes.names, sizes, strict=True))
        if self._undefined is None:  # what grows from zero has no relative size that means anything
            self._undefined = {name for name, size in named.items() if not math.isfinite(size)}
        known = {name: size for name, size in named.items() if math.isfinite(size) and name not in self._undefined}
        self.judge.add_sizes(known)
        self._last_sizes = known or self._last_sizes

    def _learning_rate(self, step: int, alarm: Alarm) -> None:
        rate = self._rate(alarm.weight)
        suggested = None if rate is None else min(self._suggested, float(f"{rate * alarm.factor:.1g}"))
        self._suggested = self._suggested if suggested is None else suggested
        what = "the learning rate" if rate is None else f"the learning rate {rate:.3g}"
        advice = "lower it" if suggested is None else f"try {suggested:g}"
        sentence = f"{what} is too high: {alarm.sentence}; {advice}"
        self._give("learning rate", step, sentence, alarm.weight, rate, suggested, lasts=alarm.lasts)

    def _rate(self, weight: str | None) -> float | None:
        """The learning rate of the group that holds the weight, else the largest."""
        optimizer = None if self._optimizer is None else self._optimizer()
        if optimizer is None:
            return None
        wanted = id(dict(self._model.named_parameters()).get(weight or ""))
        groups = [one for one in optimizer.param_groups if wanted in map(id, one["params"])] or optimizer.param_groups
        return max((float(one["lr"]) for one in groups if "lr" in one), default=None)

    def _loss_is_not_finite(self, step: int, loss: float) -> None:
        if "loss" in self._warned:
            return
        bad = bad_weights(self._model)
        if bad:
            self._weights_are_not_finite(step, bad, f"the loss is {loss}")
            return
        origin = self._found(origin_of_output)
        if origin is None:
            origin = Origin(
                None, "the output of the model is finite, so the loss function makes it, from output or target"
            )
        self._give("loss", step, f"the loss is {loss}: {origin.sentence}", origin.layer)

    def _gradient_is_not_finite(self, largest: float) -> None:
        if "gradient" in self._warned:
            return
        origin = self._found(origin_of_gradients)
        sentence = origin.sentence if origin else "where it begins is not known, because the batch was not seen"
        self._give(
            "gradient",
            self._step,
            f"the loss is finite, but not its gradient: {sentence}",
            origin.layer if origin else None,
        )

    def _weights_are_not_finite(self, step: int, bad: list[str], what: str) -> None:
        """Say which step made them so: the last loss was finite, and this one is not."""
        optimizer = None if self._optimizer is None else self._optimizer()
        who = "the optimizer" if optimizer is None else type(optimizer).__name__
        others = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        size = self._last_sizes.get(bad[0])
        before = "" if size is None else f"; the last update of it that was finite had {size:.2g} of its size"
        whose = "" if "gradient" in self._warned else ", although its gradients were finite"
        self._give(
            "weights",
            step,
            f"{what}, because weights are not finite: `{bad[0]}`{others}; "
            f"step {step} of {who} made them so{whose}{before}",
            bad[0],
        )

    def _found(self, search: Callable[[nn.Module, Call], Origin | None]) -> Origin | None:
        """Run the model once more on the last batch, under the same autocast."""
        if self._call is None or self._autocast is None:
            return Origin(None, "where is not known, because no forward pass was seen")
        device, enabled, dtype = self._autocast
        with torch.autocast(device, dtype, enabled, cache_enabled=False):
            return search(self._model, self._call)

    def _give(
        self,
        kind: Kind,
        step: int,
        sentence: str,
        layer: str | None = None,
        value: float | None = None,
        suggestion: float | None = None,
        lasts: bool = True,
    ) -> None:
        """Warn once of every kind; of a learning rate once more if it was no spike."""
        if kind not in self._warned and (kind, lasts) not in self._told:
            self._told.add((kind, lasts))
            if lasts:
                self._warned.add(kind)
            warning = WatchWarning(
                kind=kind, step=step, sentence=sentence, layer=layer, value=value, suggestion=suggestion
            )
            self._warn(warning, lasts)
