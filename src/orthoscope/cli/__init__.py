"""The command line: one verb a file, each a call into the library. Nothing heavy is imported until a verb runs."""

from importlib.metadata import entry_points

# In the order in which --help lists them.
from orthoscope.cli import (  # isort: skip
    diagnose,
    residual,
    compare,
    predict,
    fix,
    explore,
    plan_muon,
)
from orthoscope.cli.app import BAD_INPUT, FOUND, INTERRUPTED, app, main

# Verbs of other packages: `reproduce`, `errata` and `data` are in orthoscope_papers, which the library never imports.
for _verb in entry_points(group="orthoscope.verbs"):
    app.command(_verb.load(), name=_verb.name)

__all__ = [
    "BAD_INPUT",
    "FOUND",
    "INTERRUPTED",
    "app",
    "compare",
    "diagnose",
    "explore",
    "fix",
    "main",
    "plan_muon",
    "predict",
    "residual",
]
