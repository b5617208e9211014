"""Where scalars go: TensorBoard, W&B, MLflow, trackio, loggers of Lightning, functions, told apart by their verbs."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

Scalars = dict[str, float]
Tracker = Callable[[Scalars, int], None]
STEP = "orthoscope/step"


def tracker(logger: Any) -> Tracker:
    """How to give scalars of a step to `logger`.

    `add_scalar(name, value, step)` is a writer of TensorBoard, `log_metrics(scalars, step=)` MLflow or a logger of
    Lightning, `log(scalars, step=)` W&B or trackio; a function is called with the scalars and the step.
    """
    if hasattr(logger, "add_scalar"):
        return lambda scalars, step: _one_by_one(logger, scalars, step)
    if hasattr(logger, "log_metrics"):
        return lambda scalars, step: logger.log_metrics(scalars, step=step)
    if hasattr(logger, "define_metric") and hasattr(logger, "log"):
        # W&B has one step for everybody and drops what comes late: ours is a number of its own to draw against.
        logger.define_metric(STEP)
        logger.define_metric("orthoscope/*", step_metric=STEP)
        return lambda scalars, step: logger.log({**scalars, STEP: step})
    if hasattr(logger, "log"):
        return lambda scalars, step: logger.log(scalars, step=step)
    if callable(logger):
        return lambda scalars, step: logger(scalars, step)
    raise ValueError(
        "a logger has add_scalar, log_metrics or log, or is a function of scalars and step: "
        f"got {type(logger).__name__}"
    )


def trackers(logger: Any) -> list[Tracker]:
    """Of one logger, of several in a list, or of none."""
    if logger is None:
        return []
    several: Iterable[Any] = logger if isinstance(logger, (list, tuple)) else [logger]
    return [tracker(one) for one in several]


def active_loggers() -> list[Any]:
    """The runs of W&B, MLflow and trackio that are open in this process; nothing is imported to find them."""
    wandb, mlflow, trackio = (sys.modules.get(name) for name in ("wandb", "mlflow", "trackio"))
    found = []
    if getattr(wandb, "run", None) is not None:
        found.append(wandb.run)  # type: ignore[union-attr]
    if mlflow is not None and hasattr(mlflow, "active_run") and mlflow.active_run() is not None:
        found.append(mlflow)
    if trackio is not None and _current_run(trackio) is not None:
        found.append(trackio)
    return found


def _current_run(trackio: Any) -> Any:
    variable = getattr(getattr(trackio, "context_vars", None), "current_run", None)
    return None if variable is None else variable.get()


def _one_by_one(writer: Any, scalars: Scalars, step: int) -> None:
    for name, value in scalars.items():
        writer.add_scalar(name, value, step)
