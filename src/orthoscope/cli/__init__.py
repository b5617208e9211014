"""The command line: verbs only, one a file, each a call into the library. Nothing heavy is imported until one runs."""

# In the order in which --help lists them.
from orthoscope.cli import (  # isort: skip
    diagnose,
    residual,
    compare,
    predict,
    fix,
    explore,
    errata,
    plan_muon,
    reproduce,
    datasets,
)
from orthoscope.cli.app import BAD_INPUT, FOUND, INTERRUPTED, app
from orthoscope.cli.main import main

__all__ = [
    "BAD_INPUT",
    "FOUND",
    "INTERRUPTED",
    "app",
    "compare",
    "datasets",
    "diagnose",
    "errata",
    "explore",
    "fix",
    "main",
    "plan_muon",
    "predict",
    "reproduce",
    "residual",
]
