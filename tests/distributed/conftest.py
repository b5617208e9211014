"""Three launches shared by all tests and all workers of pytest.

The modules of this folder are imported by their own names, not as `distributed.launch`: `distributed` is a package of
Dask.
"""

import fcntl
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from launch import Results, launch, loaded


@pytest.fixture(scope="session")
def launched(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Callable[..., Path]:
    """The results folder of a worker, launched once for all processes of pytest."""
    root = tmp_path_factory.getbasetemp().parent / f"distributed-{testrun_uid}"
    root.mkdir(exist_ok=True)

    def folder(name: str, worker: str, ranks: int, *arguments: str, restarts: int = 0) -> Path:
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (root / name).exists():
                # Kept if the launch fails, so that other tests fail on missing files instead of launching again.
                (root / name).mkdir()
                launch(worker, ranks, str(root / name), *arguments, timeout=300, restarts=restarts)
        return root / name

    return folder


@pytest.fixture(scope="session")
def two_folder(launched: Callable[..., Path]) -> Path:
    return launched("two", "worker.py", 2)


@pytest.fixture(scope="session")
def two(two_folder: Path) -> Results:
    return loaded(two_folder, 2)


@pytest.fixture(scope="session")
def four(two_folder: Path, launched: Callable[..., Path]) -> Results:
    return loaded(launched("four", "worker.py", 4, str(two_folder)), 4)
