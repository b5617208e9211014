"""`orthoscope diagnose`: one network or many, and what to change."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from orthoscope.cli.app import BAD_INPUT, FOUND, app, progress_bar, refuse_unwritable, show, write
from orthoscope.findings import Symptom

if TYPE_CHECKING:
    from orthoscope.diagnosis.targets import NamedNetwork
    from orthoscope.report.document import DiagnosisDocument


@app.command
def diagnose(
    *targets: str,
    batch: str | None = None,
    samples: Annotated[int | None, Parameter(name=["--samples", "-n"])] = None,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    fail_on: str = "",
    seed: int = 0,
    seeds: int = 1,
    running_statistics: Annotated[bool, Parameter(negative="")] = False,
    deep: Annotated[bool, Parameter(negative="")] = False,
    traceback: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Diagnose networks at initialization; without a target, a built-in gallery of sick and healthy ones.

    Parameters
    ----------
    targets
        package.module:callable, path/to/file.py::callable, timm:NAME, hf:NAME, or a built-in such as
        "mlp(depth=50, activation=relu)", convnet(...), resnet(...), transformer(...).
    batch
        package.module:callable or file.py::callable that gives a batch; without it, one is made up to fit.
    samples
        Samples in a batch that is made up; 64 by default, in the gallery what each network asks for.
    html
        Write one self-contained page here.
    json
        Write the versioned JSON here; "-" is standard output, and the table goes to standard error.
    fail_on
        Symptoms that make the exit code 1: collapse, vanish, explode, degenerate-input, or any; comma-separated.
    seed
        Seed of the weights, of a batch that is made up, and of the direction that is differentiated.
    seeds
        Draw the weights with so many seeds, counting from --seed: the table shows the first, the page the range of all.
    running_statistics
        Use the running statistics of batch norm, as in eval mode, instead of the batch's own.
    deep
        Measure the Jacobians of residual blocks too, as `orthoscope residual` does.
    traceback
        Show the Python traceback when a network fails.
    """
    from orthoscope.diagnosis.targets import NamedNetwork

    watched = symptoms_named(fail_on)
    if not 0 <= seed < 2**63:
        raise ValueError(f"a seed is a whole number from 0 to 2^63 - 1, got {seed}")
    if not 1 <= seeds <= 1000:
        raise ValueError(f"networks are drawn with 1 to 1000 seeds, got {seeds}")
    refuse_unwritable(html, json)
    networks = [NamedNetwork(target, batch=batch) for target in targets] or gallery()
    if samples is not None:
        networks = [replace(network, samples=samples) for network in networks]
    all_seeds, details = range(seed, seed + seeds), html is not None or json is not None
    documents, failures = diagnosed(networks, all_seeds, not running_statistics, deep, details, traceback)
    show(documents, to_stderr=json == "-")
    write(documents, html, json)
    if failures:
        return BAD_INPUT
    return FOUND if any(symptom in watched for document in documents for symptom in document.symptoms) else 0


# Sick, healthy, and those that tools that watch variance call healthy: title, network, samples.
_GALLERY = (
    ("ReLU 50, variance 1 everywhere", "mlp(depth=50, activation=relu, init=he, bias=True, bias_std=0.4)", 100),
    ("ReLU 50, He weights", "mlp(depth=50, activation=relu, init=he)", 100),
    ("ReLU 50, PyTorch's weights", "mlp(depth=50, activation=relu, init=torch, bias=True)", 100),
    ("sigmoid 20, Xavier weights", "mlp(depth=20, activation=sigmoid, init=xavier)", 100),
    ("tanh 50, Xavier weights", "mlp(depth=50, activation=tanh, init=xavier)", 100),
    ("batch norm 200, batch of 8", "mlp(depth=200, width=512, activation=identity, norm=batch, init=gaussian)", 8),
    ("batch norm 50, ReLU", "mlp(depth=50, activation=relu, norm=batch)", 100),
    ("tanh 50, gain 0.3, orthogonal", "mlp(depth=50, activation=tanh, gain=0.3, init=orthogonal)", 100),
    ("tanh 50, orthogonal, batch norm", "mlp(depth=50, activation=tanh, gain=0.3, norm=batch, init=orthogonal)", 100),
    (
        "residual 50, layer norm, ReLU",
        "mlp(depth=50, activation=relu, norm=layer, residual=True, residual_scale=0.2)",
        100,
    ),
    ("convolutions 20, He weights", "convnet(depth=20, channels=32, init=he)", 32),
    ("transformer 8, pre-norm", "transformer(depth=8, width=64, heads=4)", 32),
)


def gallery() -> "list[NamedNetwork]":
    """Return the networks that are diagnosed if none is named; the weights of the first are rescaled as LSUV does."""
    from orthoscope.diagnosis.targets import NamedNetwork

    first, *others = (NamedNetwork(target, title, samples=samples) for title, target, samples in _GALLERY)
    return [replace(first, unit_variance=True), *others]


def diagnosed(
    networks: "Sequence[NamedNetwork]",
    seeds: range,
    batch_statistics: bool,
    deep: bool,
    details: bool,
    traceback: bool,
) -> "tuple[list[DiagnosisDocument], int]":
    """Return the documents of all networks that could be diagnosed, and how many could not be."""
    from orthoscope.diagnosis.document import diagnosis_document
    from orthoscope.models import TargetError

    documents: list[DiagnosisDocument] = []
    failures = 0
    with progress_bar() as (advance, note):
        for number, network in enumerate(networks):
            share = number / len(networks)

            def progress(module: str, expected: int, done: list[int] = [0], share: float = share) -> None:  # noqa: B006
                done[0] += 1
                advance(
                    share + min(1.0, done[0] / expected / len(seeds)) / len(networks), module or "the whole network"
                )

            advance(share, network.title or network.target)
            try:
                drawn = [
                    diagnosis_document(network.diagnose(seed, batch_statistics, progress, deep, details), details)
                    for seed in seeds
                ]
                documents.append(drawn[0] if len(drawn) == 1 else with_seeds(drawn, seeds))
            except TargetError as error:
                failures += 1
                if traceback:
                    raise
                note(f"orthoscope: {error}")
    return documents, failures


def symptoms_named(text: str) -> frozenset[Symptom]:
    """Symptoms from a comma-separated list; "any" is all of them, nothing is none."""
    names = {str(symptom).replace(" ", "-"): symptom for symptom in Symptom}
    wanted = [name.strip().lower().replace(" ", "-") for name in text.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in names and name != "any"]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no symptom: choose from {', '.join(names)}, or any")
    return frozenset(Symptom) if "any" in wanted else frozenset(names[name] for name in wanted)


def with_seeds(documents: "Sequence[DiagnosisDocument]", seeds: Sequence[int]) -> "DiagnosisDocument":
    """Return the first document with the field `seeds`: verdicts, and the range of every layer's main numbers.

    A range is from the least to the largest over seeds where the number is defined; null where it never is.
    """
    from orthoscope.report.document import SeedRange, Seeds, quantities

    names = [[(layer.name, layer.call) for layer in document.layers] for document in documents]
    if any(other != names[0] for other in names):
        raise ValueError("networks of different seeds called different modules: diagnose them one by one")

    def over_seeds(key: str) -> SeedRange:
        columns = zip(*([layer.measured(key) for layer in document.layers] for document in documents), strict=True)
        defined = [[value for value in column if value is not None] for column in columns]
        low, high = ((least(values, default=None) for values in defined) for least in (min, max))
        return SeedRange(low=tuple(low), high=tuple(high))

    drawn = Seeds(
        seeds=tuple(seeds),
        verdicts=tuple(document.verdict for document in documents),
        gaps=tuple(document.gap for document in documents),
        slopes=tuple(document.slope.value for document in documents),
        ranges={one.key: over_seeds(one.key) for one in quantities("layer") if one.is_main},
    )
    return replace(documents[0], seeds=drawn)
