"""The body of `orthoscope diagnose`: the gallery, and all targets with all seeds."""

from collections.abc import Sequence
from dataclasses import replace

from orthoscope.cli.app import progress_bar
from orthoscope.diagnosis.document import diagnosis_document
from orthoscope.diagnosis.targets import NamedNetwork
from orthoscope.findings import Symptom
from orthoscope.models import TargetError
from orthoscope.report.document import DiagnosisDocument, SeedRange, Seeds, quantities

# Sick, healthy, and those that tools that watch variance call healthy.
GALLERY: tuple[NamedNetwork, ...] = (
    NamedNetwork(
        "mlp(depth=50, activation=relu, init=he, bias=True, bias_std=0.4)",
        "ReLU 50, variance 1 everywhere",
        samples=100,
        unit_variance=True,
    ),
    NamedNetwork("mlp(depth=50, activation=relu, init=he)", "ReLU 50, He weights", samples=100),
    NamedNetwork(
        "mlp(depth=50, activation=relu, init=torch, bias=True)",
        "ReLU 50, PyTorch's weights",
        samples=100,
    ),
    NamedNetwork("mlp(depth=20, activation=sigmoid, init=xavier)", "sigmoid 20, Xavier weights", samples=100),
    NamedNetwork("mlp(depth=50, activation=tanh, init=xavier)", "tanh 50, Xavier weights", samples=100),
    NamedNetwork(
        "mlp(depth=200, width=512, activation=identity, norm=batch, init=gaussian)",
        "batch norm 200, batch of 8",
        samples=8,
    ),
    NamedNetwork("mlp(depth=50, activation=relu, norm=batch)", "batch norm 50, ReLU", samples=100),
    NamedNetwork(
        "mlp(depth=50, activation=tanh, gain=0.3, init=orthogonal)",
        "tanh 50, gain 0.3, orthogonal",
        samples=100,
    ),
    NamedNetwork(
        "mlp(depth=50, activation=tanh, gain=0.3, norm=batch, init=orthogonal)",
        "tanh 50, orthogonal, batch norm",
        samples=100,
    ),
    NamedNetwork(
        "mlp(depth=50, activation=relu, norm=layer, residual=True, residual_scale=0.2)",
        "residual 50, layer norm, ReLU",
        samples=100,
    ),
    NamedNetwork("convnet(depth=20, channels=32, init=he)", "convolutions 20, He weights", samples=32),
    NamedNetwork("transformer(depth=8, width=64, heads=4)", "transformer 8, pre-norm", samples=32),
)


def diagnosed(
    networks: Sequence[NamedNetwork],
    seeds: range,
    batch_statistics: bool,
    deep: bool,
    details: bool,
    traceback: bool,
) -> tuple[list[DiagnosisDocument], int]:
    """Return the documents of all networks that could be diagnosed, and how many could not be."""
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


def with_seeds(documents: Sequence[DiagnosisDocument], seeds: Sequence[int]) -> DiagnosisDocument:
    """Return the first document with the field `seeds`: verdicts, and the range of every layer's main numbers.

    A range is from the least to the largest over seeds where the number is defined; null where it never is.
    """
    names = [[(layer.name, layer.call) for layer in document.layers] for document in documents]
    if any(other != names[0] for other in names):
        raise ValueError("networks of different seeds called different modules: diagnose them one by one")
    return replace(
        documents[0],
        seeds=Seeds(
            seeds=tuple(seeds),
            verdicts=tuple(document.verdict for document in documents),
            gaps=tuple(document.gap for document in documents),
            slopes=tuple(document.slope.value for document in documents),
            ranges={one.key: _range(documents, one.key) for one in quantities("layer") if one.is_main},
        ),
    )


def _range(documents: Sequence[DiagnosisDocument], key: str) -> SeedRange:
    columns = zip(*([layer.measured(key) for layer in document.layers] for document in documents), strict=True)
    defined = [[value for value in column if value is not None] for column in columns]
    return SeedRange(
        low=tuple(min(values, default=None) for values in defined),
        high=tuple(max(values, default=None) for values in defined),
    )
