"""Named members out of an archive, checked, and nothing else."""

import gzip
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable
from io import BufferedIOBase
from pathlib import Path
from typing import cast

from orthoscope.data.catalog import DataFile
from orthoscope.data.checksums import copy_checked


class ArchiveError(RuntimeError):
    """An archive that is damaged, or does not hold what the catalog says."""


def extract(
    archive: Path, files: Iterable[DataFile], folder: Path, report: Callable[[int], None] | None = None
) -> None:
    """Write `files` from a tar archive into `folder`; refuse contents that are not the pinned ones.

    File names come from the catalog, never from the archive, so no member can escape the folder; links,
    devices and everything that was not asked for are passed over.
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
        raise ArchiveError(f"{archive.name} is damaged ({reason})") from error
    if wanted:
        raise ArchiveError(f"{archive.name} does not hold {', '.join(wanted)}")


def _store(contents: BufferedIOBase, file: DataFile, folder: Path, report: Callable[[int], None] | None) -> None:
    if file.member.endswith(".gz"):
        contents = gzip.GzipFile(fileobj=contents)
    with contents, (folder / file.name).open("wb") as sink:
        if not copy_checked(contents, file, sink, report):
            raise ArchiveError(f"{file.name} differs from its pinned sha256 {file.sha256}")
        # On disk before it is renamed into place: a power cut must not leave an empty file of that name.
        sink.flush()
        os.fsync(sink.fileno())
