"""Comparisons of diagnoses that were saved, network by network."""

from pathlib import Path
from typing import Any

from orthoscope.diagnosis.saved import saved_diagnosis, saved_documents
from orthoscope.prescriptions.comparison import compare


def compared_files(before: Path, after: Path) -> list[dict[str, Any]]:
    """Documents of the comparisons: of the one network in each file, or of those whose names are in both."""
    old, new = saved_documents(before), saved_documents(after)
    if len(old) == len(new) == 1:
        return [compared_documents(old[0], new[0])]
    named = {document["name"]: document for document in old}
    if len(named) < len(old) or len({document["name"] for document in new}) < len(new):
        raise ValueError("networks are told apart by their names, and one is there twice: compare them file by file")
    pairs = [(named[document["name"]], document) for document in new if document["name"] in named]
    if not pairs:
        raise ValueError(f"{str(before)!r} and {str(after)!r} have no network of the same name: save them one by one")
    return [compared_documents(*pair) for pair in pairs]


def compared_documents(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """As `compare` of the two diagnoses, with both documents in it as they were saved."""
    comparison = compare(saved_diagnosis(before), saved_diagnosis(after))
    return {**comparison.document(), "before": before, "after": after}
