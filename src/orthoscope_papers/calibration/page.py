"""docs/calibration.md, from the results: how often the verdict is right, and which fixes work."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from orthoscope_papers.calibration import after_steps, cure
from orthoscope_papers.calibration.fit import score
from orthoscope_papers.calibration.grid import DEPTHS, grid
from orthoscope_papers.calibration.outcomes import agreement, repeated
from orthoscope_papers.calibration.records import Signs, Training, outcomes
from orthoscope_papers.calibration.verdict import interval_over_families, is_sick
from orthoscope_papers.results import read_table

_LIMITS = {
    "sample rank": "share of directions left at the end, below",
    "gradient growth": "e-folds from output to input, above",
    "gradient decay": "e-folds lost from output to input, above",
}
_DEPTHS = (24, 80)  # weight layers at which the table by depth is cut
_RATES = ("accuracy", "false_alarms", "missed", "precision")
# Networks that simpler tools misread: a name, and which members it is.
_CASES = {
    "LeakyReLU(0.6), orthogonal (as TAT: collapsed by design)": ("mlp", "leaky_relu", "none", "orthogonal", 0.6),
    "ReLU, LSUV (unit variance)": ("mlp", "relu", "none", "lsuv", None),
    "ReLU, He": ("mlp", "relu", "none", "he", None),
    "ReLU, whitened layer by layer (gap 0)": ("mlp", "relu", "none", "whitening", None),
    "tanh, whitened layer by layer": ("mlp", "tanh", "none", "whitening", None),
    "tanh, Xavier (mean cosine 0)": ("mlp", "tanh", "none", "xavier", None),
    "ReLU, batch norm, He": ("mlp", "relu", "batch", "he", None),
    "residual, zero-initialized branches": ("resnet", "relu", "none", "zero", None),
    "residual, batch norm, zero-initialized branches": ("resnet", "relu", "batch", "zero", None),
}


def page(results: Path, calibration: Mapping[str, Any]) -> str:
    """Return the page, from the committed tables and the file that the verdict reads."""
    folder = results / "calibration"
    trainings, signs = read_table(folder / "outcomes", Training), read_table(folder / "verdict", Signs)
    cured = read_table(folder / "cure", cure.Row)
    return "\n".join(
        [
            *_beginning(calibration, trainings),
            *_limits(calibration),
            *_scores(calibration, signs),
            *_reliability(calibration),
            *_cases(signs),
            *_cures(cured),
            *after_steps.section(calibration["after_steps"]),
        ]
    )


def _beginning(calibration: Mapping[str, Any], trainings: Sequence[Training]) -> list[str]:
    trains = sum(training.trains for training in outcomes().values())
    return [
        "# How often the verdict is right",
        "",
        "<!-- written by `make calibrate` from results/calibration; do not edit -->",
        "",
        f"{len(grid())} networks, {len({m.network.family for m in grid()})} families: fully connected, convolutional, "
        "residual networks and Transformers; 5 to 300 layers of width 16 to 512; ten activations; batch, layer or RMS "
        "norm before or after the activation, or none; weights by He, Xavier, PyTorch, orthogonal, LSUV, whitening, "
        "too small or too large. Each is diagnosed, then trained for 150 steps of Adam at three learning rates (1e-4, "
        "1e-3, 1e-2) on the digits or on Fashion-MNIST at 14x14 pixels. A network *trains* if its best loss shows at "
        "least half of what a shallow network of the same kind and width learns in as many steps.",
        "",
        f"{trains} of {len(outcomes())} train. {len(repeated(trainings))} were trained from three seeds: for "
        f"{agreement(trainings):.0%} of these all three seeds agree.",
        "",
        f"The limits of the verdict are fitted to {calibration['fitted_to']} networks by maximum likelihood. All rates "
        f"below are of the {calibration['held_out']['orthoscope']['networks']} others, which share no family (kind, "
        "activation, normalization, skip connections) with those: every second family of each kind, in the order of a "
        "hash of its name. `make calibrate` repeats everything in an hour and a half on two cores.",
        "",
    ]


def _limits(calibration: Mapping[str, Any]) -> list[str]:
    rows = []
    for name, law in calibration["laws"].items():
        limit, power = law["limit"], law["power"]
        if name == "sample rank":
            limit, power = 1 / limit, -power
        spared = f"from {law['spared']} layers on" if law["spared"] else "at any depth"
        rows.append(
            f"| {name} | {_LIMITS[name]} | {limit:.3g} | (L/50)^{power:.2f} | {law['sharpness']:.2f} | {spared} |"
        )
    return [
        "## Limits",
        "",
        "A network of L weight layers is called sick beyond its limit: the limit at 50 layers times the factor. Near "
        "the limit the odds of not training are (number/limit)^sharpness. The stated risk is the largest of the three, "
        f"and at most {1 - calibration['lapse']:.0%}. Other checks (not finite, no gradient, a dead layer) have no "
        "limit.",
        "",
        "| check | number | limit at 50 layers | factor | sharpness | counts |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def _scores(calibration: Mapping[str, Any], signs: Sequence[Signs]) -> list[str]:
    return [
        "## Right, and wrong",
        "",
        "*False alarms*: of the networks that train, those called sick. *Missed*: of those that do not, those not "
        "called sick. *Precision*: of those called sick, those that do not train. The simpler rules have the limit "
        "that is best on the same families.",
        "",
        "| rule | accuracy | false alarms | missed | precision |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | " + " | ".join(f"{one[rate]:.1%}" for rate in _RATES) + " |"
            for name, one in calibration["held_out"].items()
        ),
        "",
        *_intervals(signs),
        *_parts(signs),
    ]


def _intervals(signs: Sequence[Signs]) -> list[str]:
    held = [row for row in signs if row.held_out]
    accuracy = interval_over_families(held, lambda one: one.accuracy)
    alarms = interval_over_families(held, lambda one: one.false_alarms)
    return [
        f"Families drawn with replacement, 95 %: accuracy {accuracy[0]:.1%} to {accuracy[1]:.1%}, false alarms "
        f"{alarms[0]:.1%} to {alarms[1]:.1%}.",
        "",
    ]


def _parts(signs: Sequence[Signs]) -> list[str]:
    """The same by kind and by depth: where there are few of a kind, or few that fail, little is known."""
    held = [row for row in signs if row.held_out]
    parts = {kind: [row for row in held if grid()[row.member].network.kind == kind] for kind in DEPTHS}
    edges = pairwise((1, *_DEPTHS, 10**6))
    parts |= {
        f"{low} to {high - 1} weight layers" if high < 10**6 else f"{low} weight layers and more": [
            row for row in held if low <= row.weight_layers < high
        ]
        for low, high in edges
    }
    rows = []
    for name, part in parts.items():
        one, fails = score(part, is_sick), sum(not row.trains for row in part)
        caught = sum(not row.trains and is_sick(row) for row in part)
        rows.append(f"| {name} | {len(part)} | {one.accuracy:.0%} | {one.false_alarms:.0%} | {caught} of {fails} |")
    return ["| held out | networks | accuracy | false alarms | caught |", "|---|---|---|---|---|", *rows, ""]


def _reliability(calibration: Mapping[str, Any]) -> list[str]:
    return [
        "## Is the risk a risk?",
        "",
        "| risk stated, mean | share that does not train | networks held out |",
        "|---|---|---|",
        *(f"| {bin['risk']:.2f} | {bin['share']:.2f} | {bin['networks']} |" for bin in calibration["reliability"]),
        "",
        "![trainability plane and reliability](../results/calibration/verdict/figure.svg)",
        "",
    ]


def _cases(signs: Sequence[Signs]) -> list[str]:
    rows = []
    for title, (kind, activation, norm, init, slope) in _CASES.items():
        for row in signs:
            network = grid()[row.member].network
            same = (network.kind, network.activation, network.norm, network.init) == (kind, activation, norm, init)
            if same and network.width == 96 and network.depth in (50, 100) and slope in (None, network.slope):
                became = "trains" if row.trains else "does not"
                numbers = f"{row.overlap:.2f} | {row.scale:.2g} | {row.growth:+.1f}"
                ended = f"{row.verdict}, {row.risk:.2f} | {became} ({row.learned:.2f})"
                rows.append(f"| {title}, {network.depth} | {numbers} | {ended} |")
    return [
        "## Networks that mislead",
        "",
        "*Learned* is what the network learns as a fraction of what a shallow network learns.",
        "",
        "| network, layers | mean cosine | scale | growth, e-folds | verdict, risk | outcome (learned) |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def _cures(rows: Sequence[cure.Row]) -> list[str]:
    return [
        "## Does a fix work?",
        "",
        f"Of the networks held out, {len(rows)} are called sick and do not train. After `orthoscope.fix`, "
        f"**{cure.cured(rows):.0%}** train, with the same steps and learning rates.",
        "",
        "| prescription | networks | train |",
        "|---|---|---|",
        *(f"| {_present(name)} | {count} | {works} |" for name, (count, works) in cure.by_prescription(rows).items()),
        "",
    ]


def _present(prescription: str) -> str:
    """Name a prescription as the library does now; the committed table has the name of an earlier version."""
    return prescription.replace("milder activations", "activations blended toward the identity")
