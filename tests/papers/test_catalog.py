"""The catalog is read from the source without importing it; unknown names get the nearest known ones."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orthoscope_papers import catalog as catalog_module
from orthoscope_papers.catalog import Entry, catalog, chosen, folder_of, papers
from orthoscope_papers.experiments import import_runner, load

ENTRIES = [
    Entry("lu2024/table_2", "lu2024/table_2", "A claim.", "training", True),
    Entry("lu2024/table_3", "lu2024/normalized_residual", "A claim.", "training", False),
    Entry("joudaki2024/figure_6_1", "joudaki2024/figure_6_1", "A claim.", "simulation", False),
]


def names(*wanted: str) -> list[str]:
    return [entry.name for entry in chosen(wanted, ENTRIES)]


def test_one_a_paper_or_all_are_chosen_each_once_and_in_order() -> None:
    everything = [entry.name for entry in ENTRIES]
    assert names("all") == everything
    assert names("lu2024") == names("lu2024/") == everything[:2]
    assert names("joudaki2024/figure_6_1", "lu2024/table_2", "lu2024/table_2") == [everything[0], everything[2]]
    assert names() == []


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("lu2024/table_22", "did you mean lu2024/table_2"),
        ("lu2042", "did you mean lu2024"),
        ("figure_6_1", r"did you mean joudaki2024/figure_6_1\?"),
        ("zzz", "orthoscope reproduce lists them all"),
    ],
)
def test_an_unknown_name_gets_the_nearest_ones(name: str, advice: str) -> None:
    with pytest.raises(ValueError, match=f"there is no experiment '{name}': {advice}"):
        names("all", name)


def stated(entry: Entry, name: str) -> Any:
    """What an imported figure states, or its module."""
    module = import_runner(entry.module)
    figure = getattr(module, entry.name.partition("/")[2], None)
    own = getattr(figure, name.lower(), None)
    return getattr(module, name, None) if own is None else own


def test_the_catalog_states_what_the_imported_modules_state() -> None:
    entries = catalog()
    assert {"lu2024/low_rank_update", "ju2025/copying", "lu2024/table_3"} <= {entry.name for entry in entries}
    assert not any(entry.name.endswith(("optimizers", "__init__", "normalized_residual")) for entry in entries)
    for entry in entries:
        assert (entry.claim, entry.kind) == (stated(entry, "CLAIM"), stated(entry, "KIND"))
        assert entry.has_full == (stated(entry, "FULL") is not None)
        assert entry.data == (stated(entry, "DATA") or ())
        assert entry.full_data == (stated(entry, "FULL_DATA") or entry.data)
        assert load(entry.name).module == entry.module
        author = entry.paper.rstrip("0123456789").capitalize()
        assert papers()[entry.paper].startswith(author)


def test_a_figure_states_what_differs_and_its_module_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some2024").mkdir()
    (tmp_path / "some2024" / "runs.py").write_text(
        'KIND = "training"\nDATA = ("mnist",)\n'
        'figure_10 = Figure(claim="Ten " "times.", default=Config(), data=("cifar10",), full=Config())\n'
        'figure_9 = Figure(claim="Nine.", full_data=("cifar100",), check=check)\n'
        'plot = figure("claim")\n'
    )
    monkeypatch.setattr(catalog_module, "_PAPERS", tmp_path)
    assert catalog.__wrapped__() == (
        Entry("some2024/figure_9", "some2024/runs", "Nine.", "training", False, ("mnist",), ("cifar100",)),
        Entry("some2024/figure_10", "some2024/runs", "Ten times.", "training", True, ("cifar10",), ("cifar10",)),
    )


def test_figures_are_in_the_order_of_their_numbers() -> None:
    own = [entry.name for entry in catalog() if entry.name.startswith("joudaki2024/figure_")]
    assert (
        own.index("joudaki2024/figure_3_1") < own.index("joudaki2024/figure_6_1") < own.index("joudaki2024/figure_c_3")
    )


def test_seconds_are_those_of_saved_results_or_the_most_it_may_take(tmp_path: Path) -> None:
    entry = ENTRIES[0]
    assert entry.seconds("default", tmp_path) == (240.0, False)
    assert entry.seconds("quick", tmp_path) == (3.0, False)
    folder = folder_of(entry.name, "quick", tmp_path)
    assert folder == tmp_path / "quick" / "lu2024" / "table_2"
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps({"seconds": 1.5}))
    assert entry.seconds("quick", tmp_path) == (1.5, True)
    assert entry.seconds("default", tmp_path) == (240.0, False)
    (folder / "meta.json").write_text("torn")
    assert entry.seconds("quick", tmp_path) == (3.0, False)


def test_listing_imports_no_torch() -> None:
    code = "import sys; from orthoscope_papers.cli import reproduce; reproduce(); print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split()[-1] == "False"
