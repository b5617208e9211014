"""A dataset of a few hundred bytes, and package managers that need no network."""

import gzip
import hashlib
import io
import os
import struct
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from orthoscope_papers.image_sets.catalog import CATALOG, DataFile, Entry, Package

SAMPLES, HEIGHT, WIDTH = 6, 3, 4


def tiny_contents() -> dict[str, bytes]:
    pixels = bytes(range(SAMPLES * HEIGHT * WIDTH))
    return {
        "images": bytes([0, 0, 8, 3]) + struct.pack(">3I", SAMPLES, HEIGHT, WIDTH) + pixels,
        "labels": bytes([0, 0, 8, 1]) + struct.pack(">I", SAMPLES) + bytes([0, 1, 2, 0, 1, 2]),
    }


def tiny_entry(registry: Literal["npm", "apt"], suffix: str = "") -> Entry:
    files = tuple(
        DataFile(name, f"package/{name}{suffix}", len(contents), hashlib.sha256(contents).hexdigest())
        for name, contents in tiny_contents().items()
    )
    return Entry(
        name="tiny",
        description="a test",
        shape=(1, HEIGHT, WIDTH),
        classes=3,
        scale=255,
        samples={"train": SAMPLES},
        files={"train": files},
        package=Package(registry, "tiny-package", 1000, version="1.0.0" if registry == "npm" else None),
    )


@dataclass(frozen=True)
class Bench:
    """A data directory, a folder of fake programs that comes first on the PATH, and an archive to serve."""

    data: Path
    programs: Path
    archive: Path
    calls: Path  # one line for every call of a fake program

    def install(self, program: str, script: str) -> None:
        path = self.programs / program
        path.write_text(f'#!/bin/sh\necho "{program} $*" >> "{self.calls}"\n{script}\n')
        path.chmod(0o755)

    def install_npm(self) -> None:
        self.install("npm", f'echo "npm warn something harmless" >&2; cp "{self.archive}" tiny.tgz')

    def serve(self, members: dict[str, bytes], links: dict[str, str] | None = None) -> None:
        """Make an archive with these members the one that the fake programs deliver."""
        with tarfile.open(self.archive, "w:gz") as tar:
            for name, target in (links or {}).items():
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, target
                tar.addfile(link)
            for name, contents in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(contents)
                tar.addfile(info, io.BytesIO(contents))

    @property
    def contents(self) -> dict[str, bytes]:
        """The files of the tiny dataset as they should be."""
        return tiny_contents()

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def left_behind(self) -> list[str]:
        return sorted(str(path.relative_to(self.data)) for path in self.data.rglob("*"))


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    """The tiny dataset in the catalog, and an npm that serves it."""
    made = Bench(tmp_path / "data", tmp_path / "bin", tmp_path / "tiny.tgz", tmp_path / "calls")
    made.programs.mkdir()
    monkeypatch.setenv("ORTHOSCOPE_DATA", str(made.data))
    monkeypatch.setenv("PATH", f"{made.programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setitem(CATALOG, "tiny", tiny_entry("npm"))
    made.serve({f"package/{name}": value for name, value in tiny_contents().items()})
    made.install_npm()
    return made


@pytest.fixture
def debian(bench, monkeypatch) -> Bench:
    """The same dataset as a Debian package, whose members are compressed."""
    monkeypatch.setitem(CATALOG, "tiny", tiny_entry("apt", suffix=".gz"))
    bench.serve({f"./package/{name}.gz": gzip.compress(value) for name, value in tiny_contents().items()})
    bench.install("apt-get", f'cp "{bench.archive}" tiny_1.0_all.deb')
    bench.install("dpkg-deb", 'gunzip -c < "$2"')
    return bench
