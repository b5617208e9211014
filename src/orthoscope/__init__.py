"""Orthoscope: will this network train, where does the signal die, why, and what to change.

Names are imported on first use, so that `import orthoscope` and `orthoscope --help` do not load torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orthoscope import (
        activations,
        chains,
        data,
        diagnosis,
        findings,
        init,
        layers,
        linalg,
        live,
        manifolds,
        metrics,
        models,
        optim,
        prescriptions,
        probe,
        report,
        sweep,
        theory,
        training,
        watcher,
    )
    from orthoscope.diagnosis import Alignment, Diagnosis, Forecast, align, diagnose, predict
    from orthoscope.findings import Finding, Prediction, State, Symptom, Verdict
    from orthoscope.prescriptions import (
        Comparison,
        Confirmation,
        Fix,
        Plan,
        Prescription,
        compare,
        confirm,
        fix,
        prescribe,
    )
    from orthoscope.watcher import Watch, watch

_HOME = {
    name: f"orthoscope.{package}"
    for package, names in {
        "diagnosis": ("Alignment", "Diagnosis", "Forecast", "align", "diagnose", "predict"),
        "findings": ("Finding", "Prediction", "State", "Symptom", "Verdict"),
        "prescriptions": (
            *("Comparison", "Confirmation", "Fix", "Plan", "Prescription"),
            *("compare", "confirm", "fix", "prescribe"),
        ),
        "watcher": ("Watch", "watch"),
    }.items()
    for name in names
}
__all__ = [
    "Alignment", "Comparison", "Confirmation", "Diagnosis", "Finding", "Fix", "Forecast", "Plan", "Prediction",
    "Prescription", "State", "Symptom", "Verdict", "Watch", "activations", "align", "chains", "compare", "confirm",
    "data", "diagnose", "diagnosis", "findings", "fix", "init", "layers", "linalg", "live", "manifolds", "metrics",
    "models", "optim", "predict", "prescribe", "prescriptions", "probe", "report", "sweep", "theory", "training",
    "watch", "watcher",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in __all__:
        return importlib.import_module(f"orthoscope.{name}")
    if name == "__version__":
        return importlib.import_module("orthoscope.version").VERSION
    raise AttributeError(f"module 'orthoscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
