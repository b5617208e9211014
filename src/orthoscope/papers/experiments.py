"""The protocol of an experiment, and one of its runs as a worker anywhere sees it: plain data in, plain data out."""

import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from orthoscope.papers.catalog import Setting
from orthoscope.papers.code_version import code_version
from orthoscope.papers.configs import parsed
from orthoscope.papers.results import table_of


def load(name: str) -> Any:
    """The module of an experiment, with CLAIM, KIND, Config, QUICK, Row, run, check, compare and plot.

    Or of a RUNNER, which several figures of the same runs name: Config, Row and run.
    """
    return import_module(f"orthoscope.papers.{name.replace('/', '.')}")


def config_of(experiment: Any, setting: Setting) -> Any:
    """QUICK; or the default; or FULL, the paper's own, which is the default where there is none."""
    if setting == "quick":
        return experiment.QUICK
    return getattr(experiment, "FULL", None) or experiment.Config() if setting == "full" else experiment.Config()


def cells_of(experiment: Any, config: Any) -> list[Any]:
    """The same work as configurations that may run anywhere and in any order; an experiment without `cells` is one."""
    return list(experiment.cells(config)) if hasattr(experiment, "cells") else [config]


def run_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    """`{"experiment": name, "config": plain, ...}` to `{"table": CSV, "seconds": s}`: what runs in a worker.

    The table is text because that is what is saved: rows are never rounded, renamed or reordered on the way.
    """
    experiment = load(cell["experiment"])
    # The source may have changed since the driver planned: its rows would be stored as those of other code.
    now = code_version(cell["experiment"])
    if cell.get("code", now) != now:
        raise ValueError(f"the code of {cell['experiment']} changed after this run was planned: run the command again")
    config = parsed(experiment.Config, cell["config"], cell["experiment"])
    began = time.perf_counter()  # after the imports, which only the first run of a worker has to wait for
    rows = experiment.run(config)
    return {"table": table_of(rows, experiment.Row), "seconds": time.perf_counter() - began}


def joined(tables: list[str]) -> str:
    """Tables of cells under one header."""
    header = tables[0].partition("\n")[0]
    for table in tables:
        if table.partition("\n")[0] != header:
            raise ValueError("two runs of one experiment left tables with different columns: delete its stored runs")
    return header + "\n" + "".join(table.partition("\n")[2] for table in tables)
