"""Data that is not on this machine is named before the first run, and what needs none of it runs."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from cli.process import orthoscope
from orthoscope.sweep._engines import InlineEngine
from orthoscope_papers.calibration import diagnoses, outcomes, trainability
from orthoscope_papers.calibration.families import FAMILIES
from orthoscope_papers.calibration.grid import grid
from orthoscope_papers.calibration.tasks import TASKS
from orthoscope_papers.catalog import Entry, Setting, catalog, chosen
from orthoscope_papers.datasets import CIFAR100, missing_data, sentence
from orthoscope_papers.experiments import load
from orthoscope_papers.image_sets.catalog import CATALOG
from orthoscope_papers.reproduction import STORE, reproduce

FETCHED = {name for name, entry in CATALOG.items() if entry.files} | {CIFAR100}
FAST, OTHER = "daneshmand2021/figure_2a", "lu2024/low_rank_update"


def texts(value: Any) -> Iterator[str]:
    """Every text in a configuration."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from texts(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from texts(getattr(value, field.name))


def named_in(config: Any) -> set[str]:
    """The sets that a configuration names, and of the one that names none, those its networks are trained on."""
    names = set(texts(config))
    if isinstance(config, outcomes.Config):
        names = {grid()[number].task for number in range(config.begin, config.end)}
    if isinstance(config, diagnoses.Config):
        tasks = {grid()[number].task for number in range(config.begin, config.end)}
        return named_in(config.members) | (tasks & FETCHED)
    if isinstance(config, trainability.Config):
        names = {name for family in config.families for name in TASKS[FAMILIES[family].task].data}
    return names & FETCHED


@pytest.mark.parametrize("setting", get_args(Setting))
def test_an_experiment_needs_the_data_that_its_configuration_names(setting: Setting) -> None:
    named = {entry.name: named_in(load(entry.name).settings[setting]) for entry in catalog()}
    assert {entry.name: set(entry.needs(setting)) for entry in catalog()} == named
    assert any(named.values()) is (setting != "quick"), "quick settings run on what is embedded"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory without data."""
    monkeypatch.setenv("ORTHOSCOPE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def other_needs_cifar10(empty: Path, monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    monkeypatch.setattr(Entry, "needs", lambda entry, setting: ("cifar10",) if entry.name == OTHER else ())
    return chosen([FAST, OTHER], catalog())


def test_sets_are_missing_until_all_of_their_files_are_there(empty: Path) -> None:
    table = chosen(["lu2024/table_2"], catalog())
    assert missing_data(table, "quick") == {}
    assert missing_data(table, "default") == {"lu2024/table_2": ("cifar10",)}
    assert missing_data(table, "full") == {"lu2024/table_2": ("cifar100",)}
    for folder, names in {
        CIFAR100: ["train.bin", "test.bin"],
        "cifar10": [file.name for file in CATALOG["cifar10"].all_files],
    }.items():
        (empty / folder).mkdir(parents=True)
        for name in names:
            assert missing_data(table, "full" if folder == CIFAR100 else "default")
            (empty / folder / name).touch()
    for file in CATALOG["cifar10"].all_files:
        with (empty / "cifar10" / file.name).open("wb") as handle:
            handle.truncate(file.size)  # a hole on the disk
    assert missing_data(table, "full") == missing_data(table, "default") == {}


def test_the_sentence_has_every_experiment_and_one_command() -> None:
    said = sentence({"a/1": ("cifar10",), "a/2": ("cifar10", "mnist")})
    assert said == (
        "this machine lacks the data of a/1 (cifar10), a/2 (cifar10, mnist): run `orthoscope data get cifar10 mnist`"
    )
    assert "and put train.bin and test.bin of CIFAR-100" in sentence({"a/1": ("mnist", CIFAR100)})
    assert "data get" not in sentence({"a/1": (CIFAR100,)}), "which cannot be fetched by name"


def test_what_lacks_data_is_named_before_the_first_run_and_the_others_run(
    tmp_path: Path, other_needs_cifar10: list[Entry]
) -> None:
    said: list[tuple[str, bool]] = []
    done = reproduce(
        other_needs_cifar10,
        "quick",
        tmp_path,
        lambda line: said.append((line, (tmp_path / STORE).exists())),
        engine="inline",
    )
    [(line, begun)] = said
    assert line.startswith(f"this machine lacks the data of {OTHER} (cifar10): run `orthoscope data get cifar10`")
    assert not begun
    assert [found["state"] for found in done.document["experiments"]] == ["holds", "error"]
    assert done.document["experiments"][1]["error"].startswith("its data is not here (cifar10): run `orthoscope data")
    assert (done.executed, done.passed) == (1, False)


def test_runs_that_are_finished_and_runs_of_a_cluster_ask_for_no_data_here(
    tmp_path: Path, other_needs_cifar10: list[Entry]
) -> None:
    said: list[str] = []
    elsewhere = reproduce(other_needs_cifar10, "quick", tmp_path, said.append, engine=InlineEngine())
    again = reproduce(other_needs_cifar10, "quick", tmp_path, said.append, engine="inline")
    assert (elsewhere.executed, again.executed, again.skipped) == (3, 0, 3)
    assert elsewhere.passed
    assert again.passed
    assert said == []


def test_a_command_of_which_nothing_can_run_ends_at_once_with_one_sentence(tmp_path: Path, empty: Path) -> None:
    shown = orthoscope("reproduce", "daneshmand2021/figure_3a", "lu2024/table_3", cwd=tmp_path)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr == (
        "orthoscope: this machine lacks the data of daneshmand2021/figure_3a (cifar10), lu2024/table_3 (cifar10): "
        "run `orthoscope data get cifar10`\n"
    )
    assert list(tmp_path.iterdir()) == []
