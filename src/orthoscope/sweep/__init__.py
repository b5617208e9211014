"""Grids of runs on local processes or a cluster, with a store that survives kill -9 and resumes."""

from orthoscope.sweep.claims import read_ledger
from orthoscope.sweep.drive import Interrupted, Sweep, is_finished, run
from orthoscope.sweep.store import Problem, Run, Runs, read_runs

__all__ = ["Interrupted", "Problem", "Run", "Runs", "Sweep", "is_finished", "read_ledger", "read_runs", "run"]
