"""`orthoscope.watch`: what can be asked of a watch."""

import os
from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.optim.optimizer import Optimizer

from orthoscope.diagnosis.watch import Watch
from orthoscope.probe.recording import Loss


def watch(
    model: nn.Module,
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    every: int = 200,
    *,
    profile: bool = True,
    updates: bool = False,
    log: str | os.PathLike[str] | None = None,
    logger: Any = "active",
    on_risk: str | None = None,
    loss: Loss | None = None,
    samples: int = 64,
    batch_statistics: bool = True,
    largest: int = 4096,
) -> Watch:
    """Look at `model` when training starts and after every `every` steps: `with watch(model) as w:` around any loop.

    `profile` diagnoses it on the batch of that step, at most its first `samples`, just before the loop's own forward
    pass; `w.history` keeps the verdict and the scalars, `w.latest` the last diagnosis. `updates` records what
    every `every`-th optimizer step, beginning with the first, does to every matrix, in `w.rows`; that takes a
    decomposition of each, and the time of some ten steps. Training is the same to the last bit.

    `log` names a file that every record is appended to, one line of JSON each. At most eight scalars go to `logger`:
    TensorBoard's writer, W&B, MLflow, trackio, a logger of Lightning, a function of scalars and step, or a list of
    them; "active" means the runs of W&B, MLflow and trackio that are open. With `on_risk="warn"` a warning is given
    when the verdict becomes worse than it ever was; "stop" also ends the loop when it is SICK: the `with` block is
    left, and `w.stopped` says why.

    `loss` and `batch_statistics` are those of `diagnose`; a model that is called with `labels`, as those of
    transformers are, has a loss of its own. Without `optimizer`, every optimizer that moves parameters of the model is
    watched, also one made later; of nested ones the outermost. Which matrices a parameter holds is said by the
    optimizer, if that is `Muon`, else by its layer. Matrices of more than `largest` rows are skipped, because every
    pair of rows is compared; `w.skipped` says what was skipped and why. Models that are spread over ranks are looked
    at by all of them together, so every rank must watch; the first one writes. A look or a logger that fails does not
    end the training: a warning is given, and `w.problems` says what failed.
    """
    return Watch(
        model,
        optimizer,
        every,
        profile=profile,
        updates=updates,
        log=log,
        logger=logger,
        on_risk=on_risk,
        loss=loss,
        samples=samples,
        batch_statistics=batch_statistics,
        largest=largest,
    )
