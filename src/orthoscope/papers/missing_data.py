"""Data that experiments need and this machine lacks: said before the first run, not after the last."""

from collections.abc import Mapping, Sequence

from orthoscope.data import available, data_directory
from orthoscope.papers.catalog import Entry, Setting
from orthoscope.papers.cifar100 import CIFAR100

Missing = Mapping[str, tuple[str, ...]]  # sets by experiment


def missing_data(entries: Sequence[Entry], setting: Setting) -> dict[str, tuple[str, ...]]:
    """The experiments that cannot be run on this machine, each with the sets that it lacks."""
    here = {listing.name for listing in available() if listing.present}
    if all((data_directory() / CIFAR100 / f"{split}.bin").is_file() for split in ("train", "test")):
        here.add(CIFAR100)
    lacking = {entry.name: tuple(name for name in entry.needs(setting) if name not in here) for entry in entries}
    return {name: sets for name, sets in lacking.items() if sets}


def sentence(missing: Missing) -> str:
    """Which experiments lack what, and what to do."""
    experiments = ", ".join(f"{name} ({', '.join(sets)})" for name, sets in missing.items())
    sets = dict.fromkeys(one for sets in missing.values() for one in sets)
    return f"this machine lacks the data of {experiments}: {remedy(list(sets))}"


def remedy(sets: Sequence[str]) -> str:
    """The command that fetches sets; CIFAR-100 has none."""
    fetched = " ".join(name for name in sets if name != CIFAR100)
    ways = [f"run `orthoscope data get {fetched}`"] if fetched else []
    if CIFAR100 in sets:
        ways.append(f"put train.bin and test.bin of CIFAR-100's binary version into {data_directory() / CIFAR100}")
    return " and ".join(ways)
