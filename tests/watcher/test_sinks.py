"""Scalars reach what people log with: each kind of logger is told in its own words."""

import sys
import types
from typing import Any

import pytest

from orthoscope.watcher.sinks import active_loggers, trackers


class Writer:
    """As `torch.utils.tensorboard.SummaryWriter`."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None) -> None:
        self.told.append((tag, scalar_value, global_step))


class Lightning:
    """As a logger of Lightning, or the module `mlflow`."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.told.append((metrics, step))


class Trackio:
    """As the module `trackio`."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def log(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.told.append((metrics, step))


class Wandb(Trackio):
    """As a run of W&B: what is logged for a step that is over is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.defined: list[Any] = []

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.defined.append((name, step_metric))


def test_every_kind_of_logger_is_called_by_its_own_interface() -> None:
    scalars = {"orthoscope/risk": 1.0, "orthoscope/worst_gap": 0.5}
    writer, lightning, trackio, wandb = Writer(), Lightning(), Trackio(), Wandb()
    called: list[Any] = []
    for send in trackers([writer, lightning, trackio, wandb, lambda *given: called.append(given)]):
        send(scalars, 7)
    assert writer.told == [("orthoscope/risk", 1.0, 7), ("orthoscope/worst_gap", 0.5, 7)]
    assert lightning.told == trackio.told == called == [(scalars, 7)]
    assert wandb.told == [({**scalars, "orthoscope/step": 7}, None)]
    assert wandb.defined == [("orthoscope/step", None), ("orthoscope/*", "orthoscope/step")]


def test_none_and_one_are_accepted() -> None:
    assert trackers(None) == []
    assert len(trackers(Writer())) == 1
    with pytest.raises(ValueError, match="or is a function of scalars and step: got int"):
        trackers(3)


def test_open_runs_are_found_without_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wandb", "mlflow", "trackio"):
        monkeypatch.setitem(sys.modules, name, None)
    assert active_loggers() == []
    run, mlflow = Wandb(), types.SimpleNamespace(active_run=lambda: "a run", log_metrics=print)
    current = types.SimpleNamespace(current_run=types.SimpleNamespace(get=lambda: "a run"))
    trackio = types.SimpleNamespace(context_vars=current, log=print)
    for name, module in (("wandb", types.SimpleNamespace(run=run)), ("mlflow", mlflow), ("trackio", trackio)):
        monkeypatch.setitem(sys.modules, name, module)
    assert active_loggers() == [run, mlflow, trackio]
    mlflow.active_run = lambda: None
    current.current_run.get = lambda: None
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(run=None))
    assert active_loggers() == []
