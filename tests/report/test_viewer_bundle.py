"""The bundle in the package is built from the sources beside it: no npm is needed to know."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from orthoscope.report.document import KINDS

ROOT = Path(__file__).parents[2]
VIEWER = ROOT / "viewer"
BUNDLE = ROOT / "src" / "orthoscope" / "report" / "viewer.js"


def sources_hash() -> str:
    """As viewer/build.mjs takes it."""
    names = [
        "package-lock.json",
        "package.json",
        "build.mjs",
        *(f"src/{path.name}" for path in (VIEWER / "src").iterdir()),
    ]
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(name.encode() + b"\0" + (VIEWER / name).read_bytes() + b"\0")
    return digest.hexdigest()


def test_the_bundle_is_built_from_these_sources():
    recorded = re.match(r"// orthoscope viewer, sources sha256 ([0-9a-f]{64})\n", BUNDLE.read_text("utf-8"))
    assert recorded is not None
    assert recorded[1] == sources_hash(), "viewer/ was changed: run `make viewer` and commit the bundle"


def test_the_bundle_is_small_plain_and_stays_in_its_element():
    text = BUNDLE.read_text("ascii") + BUNDLE.with_suffix(".css").read_text("utf-8")
    assert len(text) < 600_000
    assert not re.search(r"</script|<!--|\binnerHTML\b|\binsertAdjacentHTML\b|\beval\(|document\.write", text)


def test_the_lock_file_pins_every_package_and_names_no_host():
    lock = (VIEWER / "package-lock.json").read_text("utf-8")
    packages = {name: entry for name, entry in json.loads(lock)["packages"].items() if name}
    assert all("integrity" in entry and "version" in entry for entry in packages.values())
    assert "resolved" not in lock
    assert "http" not in lock


@pytest.mark.parametrize("path", sorted((VIEWER / "src").glob("*.ts")), ids=lambda path: path.name)
def test_no_source_parses_markup(path):
    text = path.read_text("utf-8")
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval("):
        assert forbidden not in text


def test_types_are_generated_of_kinds_that_a_page_draws():
    text = (VIEWER / "src" / "types.ts").read_text("utf-8")
    declared = set(re.findall(r"export (?:interface|type) (\w+)", text))
    assert {kind.__name__ for kind in KINDS.values() if kind.drawn} <= declared
    assert not {kind.__name__ for kind in KINDS.values() if not kind.drawn} & declared
