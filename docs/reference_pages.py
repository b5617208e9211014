"""Writes the reference pages from the source: metrics, theorems with their hypotheses, errata, and the glossary.

`make reference-pages`; a test holds them to the source.
"""

import inspect
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from glossary_words import FORMULAS, WORDS

from orthoscope import metrics, theory
from orthoscope.files import replace
from orthoscope.report.document.quantities import Group, quantities
from orthoscope_papers.errata import all_errata

HERE = Path(__file__).parent
NOTE = "Written from the source by `make reference-pages`; do not edit."
SUBJECTS = {
    "linalg": "Singular values",
    "representations": "Representations: samples at a layer",
    "weights": "Weights",
    "gradients": "Gradients along depth",
    "updates": "Updates: what a step does to a weight",
    "jacobians": "Jacobians of residual blocks",
}
THEORIES = {
    "kernel": "Kernel maps: two samples through a wide layer",
    "gram": "Batch norm in wide networks",
    "chain": "The linear chain with batch norm",
    "haar": "Orthogonal weights",
    "network": "A whole network, finite width included",
    "residual": "Residual networks",
}
GROUPS: dict[str, str] = {
    "layer": "Numbers of a layer",
    "network": "Numbers of a network",
    "depth": "Numbers of a prediction, by depth",
    "block": "Numbers of a residual block",
    "update": "Numbers of an update of a weight",
    "snapshot": "Numbers of a training that is watched",
    "attention": "Numbers of an attention",
    "time": "Numbers of a recurrent layer",
    "experts": "Numbers of a mixture of experts",
    "step": "Numbers of a step of a training",
}


def glossary_page() -> str:
    """Every quantity of the documents, from their table, and the other words of a report."""
    parts = [
        "# Glossary",
        NOTE,
        "Every quantity and every word that a report shows. A batch at a layer is a matrix $H$ with $n$ rows, the\n"
        "samples $h_i$, and $d$ columns, the units; its singular values are $\\sigma_i$. [Metrics](metrics.md) has\n"
        "the functions.",
    ]
    seen: set[str] = set()
    for group in get_args(Group):
        parts.append(f"## {GROUPS[group]}")
        for quantity in quantities(group):
            again = quantity.anchor in seen
            seen.add(quantity.anchor)
            # An entry of the same name in a later group is told apart by its group; the anchor stays with the first.
            parts.append(f"### {quantity.label}{f' ({group})' if again else ''}")
            unit = f" Unit: {quantity.unit}." if quantity.unit else ""
            parts.append(quantity.explanation + unit)
            formula = FORMULAS.get((group, quantity.key))
            parts += [f"$$ {formula} $$"] if formula else []
    parts.append("## Words")
    parts += [f"### {word}\n\n{text}" for word, text in WORDS.items()]
    return "\n\n".join(parts) + "\n"


def metrics_page() -> str:
    """Every public function and result of `orthoscope.metrics`, by what it looks at."""
    found = [(name, getattr(metrics, name)) for name in metrics.__all__]
    parts = [
        "# Metrics",
        NOTE,
        "`orthoscope.metrics` takes tensors and gives numbers: batched over leading dimensions, in float64,\n"
        "`(samples, units)` for representations and `(out, in)` for weights.",
        _arguments(metrics),
    ]
    return _page(parts, _by_subject(found, SUBJECTS, depth=2), _entry)


def theorems_page() -> str:
    """Everything of `orthoscope.theory` that carries a source."""
    found = [(name, getattr(theory, name)) for name in theory.__all__]
    predictors = [(name, value) for name, value in found if hasattr(value, "source")]
    parts = [
        "# Theorems",
        NOTE,
        f"The {len(predictors)} predictions of `orthoscope.theory`: from hyper-parameters to numbers, no network.\n"
        "Each names the statement it computes and what that assumes; *(corrected)* marks what is false as printed\n"
        "([errata](errata.md)).",
        _arguments(theory),
    ]
    page = _page(parts, _by_subject(predictors, THEORIES, depth=2), _theorem)
    works = "\n".join(f"- **{key}**: {title}" for key, title in theory.BIBLIOGRAPHY.items())
    return f"{page}\n## Sources\n\n{works}\n"


def errata_page() -> str:
    """Every statement that is false as printed; the numbers are left to `orthoscope errata`, which runs them."""
    errata = all_errata()
    parts = [
        "# Errata",
        NOTE,
        f"{len(errata)} statements of the papers behind this library are false or misprinted as they stand.\n"
        "Every one has a counterexample and a corrected form, both code: `orthoscope errata` evaluates them now, and\n"
        "the tests draw further cases of the corrected form at random.",
    ]
    for source, entries in groupby(errata, lambda erratum: erratum.source):
        parts.append(f"## {source}\n\n{theory.BIBLIOGRAPHY[source]}")
        parts += [
            f"### {_plain(erratum.where)}\n\n- printed: {_plain(erratum.printed)}\n"
            f"- counterexample: {_plain(erratum.case)}\n"
            f"- corrected: {_plain(erratum.corrected)}\n- why: {_plain(erratum.why)}\n- key: `{erratum.key}`"
            for erratum in entries
        ]
    return "\n\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "glossary.md": glossary_page,
    "metrics.md": metrics_page,
    "theorems.md": theorems_page,
    "errata.md": errata_page,
}


def _page(parts: list[str], subjects: dict[str, list[tuple[str, Any]]], entry: Callable[[str, Any], str]) -> str:
    for title, found in subjects.items():
        parts.append(f"## {title}")
        parts += [entry(name, value) for name, value in found]
    return "\n\n".join(parts) + "\n"


def _by_subject(found: list[tuple[str, Any]], titles: dict[str, str], depth: int) -> dict[str, list[tuple[str, Any]]]:
    """Entries under the title of the part of the package they are defined in, all of them."""
    sections: dict[str, list[tuple[str, Any]]] = {title: [] for title in titles.values()}
    for name, value in found:
        where = value.__module__.split(".")
        part = where[depth] if where[1] in ("metrics", "theory") else where[1]
        sections[titles[part]].append((name, value))
    return sections


def _entry(name: str, value: Any) -> str:
    return f"### {name}\n\n`{name}{_signature(value)}`\n\n{_prose(value)}"


def _prose(value: Any) -> str:
    """A docstring without its sections, except the fields of a result as a list."""
    text, *sections = re.split(r"\n\n(?=(?:Args|Attributes|Returns|Raises|Example):\n)", inspect.getdoc(value) or "")
    fields = [section for section in sections if section.startswith("Attributes:")]
    return "\n\n".join([text, *map(_list, fields)])


def _list(section: str) -> str:
    """A section of described names as a list."""
    return re.sub(r"^    (\w+): ", r"- `\1`: ", section.partition("\n")[2].rstrip(), flags=re.MULTILINE)


def _arguments(package: Any) -> str:
    """What the arguments of a package mean, which is the same in all its functions."""
    return "Arguments mean the same in all functions:\n\n" + _list(
        (inspect.getdoc(package) or "").partition("\n\n")[2].partition("Args:")[2]
    )


def _theorem(name: str, value: Any) -> str:
    source = theory.source_of(value)
    return f"{_entry(name, value)}\n\n*{_plain(str(source))}*; assumes {_plain(source.assumes)}."


def _signature(value: Any) -> str:
    """Names of the arguments and what they are unless given."""
    signature = inspect.signature(value)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is."""
    for letter in "\\`*_{}[]<>|$":
        text = text.replace(letter, f"\\{letter}")
    return text


def main() -> None:
    for name, page in PAGES.items():
        replace(HERE / name, page())
        print(f"wrote {HERE / name}")


if __name__ == "__main__":
    main()
