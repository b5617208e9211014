"""Every experiment keeps the protocol, and the committed results are what its code makes of the committed tables."""

import ast
import dataclasses
from pathlib import Path
from typing import get_args

import pytest

from orthoscope_papers.catalog import LIMITS, Entry, catalog, folder_of, papers
from orthoscope_papers.document import saved_document
from orthoscope_papers.evidence import Verdict
from orthoscope_papers.experiments import import_runner, joined, load, parsed, run_cell
from orthoscope_papers.reproduction import planned
from orthoscope_papers.results import plain, read_meta, read_table, rows_of, seeds_of, table_of
from orthoscope_papers.views import results_page
from papers.figures import drawn

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
ENTRIES = catalog()
SHARED = "joudaki2024/figure_c_8"
SAVED = [entry for entry in ENTRIES if (folder_of(entry.name, "default", RESULTS) / "meta.json").is_file()]
experiments = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
saved_experiments = pytest.mark.parametrize("entry", SAVED, ids=lambda entry: entry.name)


@experiments
def test_an_experiment_keeps_the_protocol(entry: Entry) -> None:
    experiment, module = load(entry.name), import_runner(entry.module)
    assert module.__doc__
    assert entry.claim.endswith(".")
    assert entry.claim[0].isupper()
    assert " " in entry.claim
    assert entry.kind in LIMITS
    for verb in ("run", "cells", "check", "compare", "plot"):
        assert callable(getattr(experiment, verb)), verb
    assert module.Config.__dataclass_params__.frozen
    assert all(type(config) is module.Config for config in experiment.settings.values())
    assert experiment.settings["quick"] != experiment.settings["default"]
    assert entry.has_full == (experiment.settings["full"] != experiment.settings["default"])
    assert set(experiment.Row.__annotations__.values()) <= {str, int, float}
    assert issubclass(experiment.Row, tuple)


@experiments
def test_every_configuration_and_every_cell_survives_json(entry: Entry) -> None:
    experiment, module = load(entry.name), import_runner(entry.module)
    for config in experiment.settings.values():
        cells = experiment.cells(config)
        assert cells
        assert len(set(cells)) == len(cells), "no run twice"
        for one in (config, *cells):
            assert parsed(module.Config, plain(one), entry.name) == one
        seeds = [seed for cell in cells for seed in seeds_of(cell)]
        assert set(seeds) == set(seeds_of(config)), "cells use the seeds of the whole, and no others"


@pytest.mark.parametrize("name", ["joudaki2024/figure_6_1"])
def test_cells_joined_in_order_are_the_whole(name: str) -> None:
    experiment = load(name)
    config = experiment.settings["quick"]
    cells = experiment.cells(config)
    assert len(cells) > 1
    tables = [run_cell({"module": name, "config": plain(cell)})["table"] for cell in cells]
    assert rows_of(joined(tables), experiment.Row) == experiment.run(config)


def test_figures_of_the_same_trainings_are_one_run() -> None:
    plans = [planned(entry, "default") for entry in ENTRIES if entry.name in ("joudaki2024/figure_6_4", SHARED)]
    assert len(plans) == 2
    assert plans[0].cells == plans[1].cells


def test_a_run_that_was_planned_with_other_code_is_refused() -> None:
    quick = load("lu2024/low_rank_update").settings["quick"]
    with pytest.raises(ValueError, match=r"code of lu2024/low_rank_update changed after .*: run the command again"):
        run_cell({"module": "lu2024/low_rank_update", "config": plain(quick), "code": "0"})


def test_tables_of_other_columns_are_not_joined() -> None:
    assert joined(["a,b\n1,2\n", "a,b\n3,4\n"]) == "a,b\n1,2\n3,4\n"
    with pytest.raises(ValueError, match=r"different columns: delete its stored runs"):
        joined(["a,b\n1,2\n", "a,c\n3,4\n"])


def test_a_cell_whose_configuration_no_longer_parses_is_refused_by_name() -> None:
    quick = load("lu2024/low_rank_update").settings["quick"]
    with pytest.raises(ValueError, match=r"configuration of lu2024/low_rank_update has no field 'heads'"):
        run_cell({"module": "lu2024/low_rank_update", "config": {**plain(quick), "heads": 2}})


@saved_experiments
def test_committed_results_are_what_the_code_finds_in_their_tables(entry: Entry) -> None:
    experiment, folder = load(entry.name), folder_of(entry.name, "default", RESULTS)
    meta, rows = read_meta(folder), read_table(folder, experiment.Row)
    assert meta["experiment"] == entry.name
    assert meta.get("setting", "default") == "default"
    assert meta["config"] == plain(experiment.settings["default"])
    assert meta["seeds"] == seeds_of(experiment.settings["default"])
    assert meta["checks"] == experiment.check(rows)
    assert all(meta["checks"].values()), [statement for statement, holds in meta["checks"].items() if not holds]
    assert table_of(rows, experiment.Row) == (folder / "table.csv").read_text(encoding="utf-8")
    assert (folder / "table.csv").stat().st_size < 400_000
    for evidence in experiment.compare(rows):
        assert evidence.verdict in get_args(Verdict)
        assert evidence.why or evidence.verdict == "agrees", "what differs or is corrected says why"
        assert evidence.printed is None or evidence.verdict != "measured", "a printed number is compared"
        assert not evidence.low > evidence.ours
        assert not evidence.high < evidence.ours


@saved_experiments
def test_committed_figures_are_drawn_from_the_committed_tables(entry: Entry) -> None:
    experiment, folder = load(entry.name), folder_of(entry.name, "default", RESULTS)
    saved = (folder / "figure.svg").read_text(encoding="utf-8")
    assert saved == drawn(experiment.plot(read_table(folder, experiment.Row)))
    assert len(saved) < 300_000
    for file in folder.iterdir():
        assert not any(place in file.read_text(encoding="utf-8") for place in ("/home", "/tmp", "/work", "/root"))


def test_the_page_of_results_is_what_the_committed_results_say() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert page == results_page(saved_document(RESULTS), papers()), "run make results-page"


def test_seeds_are_named_or_counted_or_none() -> None:
    named = dataclasses.make_dataclass("Named", [("seeds", tuple, (3, 5))])
    counted = dataclasses.make_dataclass("Counted", [("num_seeds", int, 2)])
    assert [seeds_of(kind()) for kind in (named, counted, dataclasses.make_dataclass("Exact", []))] == [
        [3, 5],
        [0, 1],
        [],
    ]


def test_the_library_does_not_import_the_papers() -> None:
    for path in sorted((ROOT / "src" / "orthoscope").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(module.startswith("orthoscope_papers") for module in modules), path
