"""From experiments to their results: all runs in one sweep, then table, figure and checks of each experiment."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orthoscope import sweep
from orthoscope.sweep.store import canonical, encoded
from orthoscope_papers.catalog import Entry, Setting
from orthoscope_papers.code_version import code_version
from orthoscope_papers.datasets import Missing, missing_data, remedy, sentence
from orthoscope_papers.document import failed, judged, results_document
from orthoscope_papers.experiments import Experiment, joined, load, run_cell
from orthoscope_papers.results import plain, save, seeds_of

STORE = ".runs"  # beside the results
OWN_MACHINE = ("local", "inline", "dask")  # engines that compute here, unless a scheduler is named


@dataclass(frozen=True)
class PlannedExperiment:
    """An experiment, its configuration, and the runs it is divided into, as a worker gets them."""

    entry: Entry
    experiment: Experiment
    config: Any
    cells: list[dict[str, Any]]


@dataclass(frozen=True)
class Reproduction:
    """The document of results, and what the sweep behind it did."""

    document: dict[str, Any]
    executed: int
    skipped: int
    problems: list[str]

    @property
    def passed(self) -> bool:
        return all(one["state"] == "holds" for one in self.document["experiments"])


def reproduce(
    entries: Sequence[Entry], setting: Setting, output: Path, say: Callable[[str], None] = print, **options: Any
) -> Reproduction:
    """Run experiments and write their results.

    An experiment that fails does not stop the others: the document names it with the reason.

    Args:
        entries: what to run.
        setting: at which sizes.
        output: folder of results and finished runs.
        say: gets one sentence, before the first run, about experiments whose data is not on this machine.
        options: those of `orthoscope.sweep.run`.

    Raises:
        ValueError: if the data of every experiment is missing.
    """
    plans: list[PlannedExperiment] = []
    outcomes: dict[str, dict[str, Any]] = {}
    for entry in entries:
        try:
            plans.append(planned(entry, setting))
        except Exception as error:
            outcomes[entry.name] = failed(entry, f"cannot be loaded: {_words(error)}")
    plans, lacking = _runnable(plans, setting, output, **options)
    if lacking and not plans and not outcomes:
        raise ValueError(sentence(lacking))
    if lacking:
        say(f"{sentence(lacking)}; the others run meanwhile")
    for entry in entries:
        if entry.name in lacking:
            sets = lacking[entry.name]
            outcomes[entry.name] = failed(entry, f"its data is not here ({', '.join(sets)}): {remedy(sets)}")
    # The longest runs first, so that no core waits for one that began last.
    plans.sort(key=lambda plan: -plan.entry.seconds(setting, output)[0] / len(plan.cells))
    swept = sweep.run(run_cell, [cell for plan in plans for cell in plan.cells], output / STORE, **options)
    results = iter(swept.results)
    for plan in plans:
        own = [next(results) for _ in plan.cells]
        outcomes[plan.entry.name] = _outcome(plan, own, swept.failed, setting, output)
    document = results_document(setting, [outcomes[entry.name] for entry in entries])
    problems = [f"{problem.path} {problem.reason}; that run was done again" for problem in swept.problems]
    return Reproduction(document, swept.executed, swept.skipped, problems)


def _runnable(
    plans: Sequence[PlannedExperiment],
    setting: Setting,
    output: Path,
    engine: Any = "local",
    scheduler: Any = None,
    **_: Any,
) -> tuple[list[PlannedExperiment], Missing]:
    """Return the plans that can run here, and the datasets that the others lack.

    Finished runs need no data, and a cluster has its own.
    """
    if engine not in OWN_MACHINE or scheduler is not None:
        return list(plans), {}
    lacking = missing_data([plan.entry for plan in plans], setting)
    for plan in plans:
        if plan.entry.name in lacking and sweep.is_finished(run_cell, plan.cells, output / STORE):
            del lacking[plan.entry.name]
    return [plan for plan in plans if plan.entry.name not in lacking], lacking


def planned(entry: Entry, setting: Setting) -> PlannedExperiment:
    """Load an experiment and divide it into runs; figures of one module with equal cells share these runs."""
    experiment = load(entry.name)
    config, code = experiment.settings[setting], code_version(experiment.module)
    cells = [{"module": experiment.module, "config": plain(cell), "code": code} for cell in experiment.cells(config)]
    return PlannedExperiment(entry, experiment, config, cells)


def _outcome(
    plan: PlannedExperiment, results: Sequence[Any], errors: dict[str, str], setting: Setting, output: Path
) -> dict[str, Any]:
    reasons = list(_reasons(plan, results, errors))
    if reasons:
        return failed(plan.entry, f"{len(reasons)} of {len(results)} runs failed, the first: {reasons[0]}")
    try:
        table = joined([result["table"] for result in results])
        seconds = sum(result["seconds"] for result in results)
        rows = save(output, plan.entry.name, plan.experiment, plan.config, table, setting=setting, seconds=seconds)
        return judged(plan.entry, plan.experiment, rows, seeds=len(seeds_of(plan.config)), seconds=seconds)
    except OSError:
        raise  # a full disk is no property of the experiment
    except Exception as error:
        return failed(plan.entry, f"its rows could not be judged: {_words(error)}")


def _reasons(plan: PlannedExperiment, results: Sequence[Any], errors: dict[str, str]) -> Iterator[str]:
    for cell, result in zip(plan.cells, results, strict=True):
        if result is None:
            yield errors[canonical(encoded(cell, "the configuration"))]


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
