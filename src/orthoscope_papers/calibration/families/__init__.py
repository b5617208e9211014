"""Families of networks that people train, in small, and which of them are held out from every fit."""

import hashlib
from functools import cache

from orthoscope_papers.calibration.families.convolutional import CONVOLUTIONAL
from orthoscope_papers.calibration.families.experts import EXPERTS
from orthoscope_papers.calibration.families.family import Family, Kind, Settings
from orthoscope_papers.calibration.families.generative import GENERATIVE
from orthoscope_papers.calibration.families.graphs import GRAPHS
from orthoscope_papers.calibration.families.language import LANGUAGE
from orthoscope_papers.calibration.families.mlps import MLPS
from orthoscope_papers.calibration.families.sequences import SEQUENCES
from orthoscope_papers.calibration.families.vision import VISION

FAMILIES = {
    family.name: family
    for group in (LANGUAGE, VISION, CONVOLUTIONAL, SEQUENCES, EXPERTS, GRAPHS, GENERATIVE, MLPS)
    for family in group
}


@cache
def held_out() -> frozenset[str]:
    """Return the families that nothing is fitted to: every second of each kind in the order of a hash, twins alike."""
    names: set[str] = set()
    for kind in dict.fromkeys(family.kind for family in FAMILIES.values()):
        alike = {family.twins or family.name for family in FAMILIES.values() if family.kind == kind}
        ordered = sorted(alike, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
        chosen = ordered[1::2]
        names |= {one.name for one in FAMILIES.values() if one.kind == kind and (one.twins or one.name) in chosen}
    return frozenset(names)


__all__ = ["FAMILIES", "Family", "Kind", "Settings", "held_out"]
