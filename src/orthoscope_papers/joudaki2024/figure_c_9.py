r"""Joudaki (2024), Figure C.9: activations that keep representations from isometry make gradients explode.

Orthogonal weights, batch norm, width and batch 100, identity, tanh and sin at gain 1. Left the gradient of the first
hidden weight, right the isometry gap of the last layer, over depth. Batch norm here does not center, as in the public
notebook: centered samples are always dependent, so that the gap of the identity would be infinite.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from orthoscope.chains import Chain, simulate
from orthoscope.metrics import isometry_gap
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.joudaki2024 import first_gradients as gradients
from orthoscope_papers.joudaki2024.first_gradients import GradientConfig, first_gradients, image_starts, late_growth
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "With orthogonal weights and batch norm the isometry gap of the identity vanishes and its gradients stay bounded; "
    "tanh and sin keep a gap, and their gradients explode."
)
KIND = "simulation"
DATA = ("cifar10",)


@dataclass(frozen=True)
class Config(GradientConfig):
    activations: tuple[str, ...] = ("identity", "tanh", "sin")
    depths: tuple[int, ...] = (5, 10, 20, 50, 100, 200, 300, 500)  # at 100 units the gap takes 50 layers to fall by e


QUICK = Config(data="digits", width=20, batch=20, depths=(5, 10, 20, 40, 80, 120), seeds=tuple(range(6)))
FULL = Config(depths=(5, 10, 20, 50, 100, 200, 500, 1000))


class Row(NamedTuple):
    network: str
    width: int
    batch: int
    depth: int
    seed: int
    log_gradient: float
    gap: float


def cells(config: Config) -> list[Config]:
    """One activation each."""
    return [replace(config, activations=(name,)) for name in config.activations]


def run(config: Config) -> list[Row]:
    """Gradients and gaps of every activation, seed and depth."""
    images = image_starts(config)
    rows = []
    for name in config.activations:
        chain = Chain(config.width, init="orthogonal", activation=name, norm="batch_uncentered")
        recording = simulate(
            images,
            chain,
            max(config.depths),
            seeds=config.seeds,
            record={"gap": isometry_gap},
            layers=config.depths,
        )
        gaps = recording.values["gap"].flatten().tolist()
        found = first_gradients(name, chain, config, images)
        rows += [Row(*row, gap) for row, gap in zip(found, gaps, strict=True)]
    return rows


def gaps(rows: Sequence[Row], network: str) -> dict[int, list[float]]:
    """Depth to the gaps of all seeds."""
    own = [row for row in rows if row.network == network]
    return {depth: [r.gap for r in own if r.depth == depth] for depth in sorted({r.depth for r in own})}


def check(rows: list[Row]) -> dict[str, bool]:
    """Gap and explosion go together."""
    plain, deepest = _plain(rows), max(row.depth for row in rows)
    growth = {name: late_growth(plain, name, 3.0) for name in ("identity", "tanh", "sin")}
    gap = {name: interval(gaps(rows, name)[deepest], 3.0) for name in growth}
    shallow = min(row.depth for row in rows)
    return {
        "identity: the gap falls with depth, to less than a tenth": (
            gap["identity"][0] < 0.1 * interval(gaps(rows, "identity")[shallow])[0]
        ),
        "identity: gradients do not grow, by less than a tenth of what they do for tanh": (
            growth["identity"][2] < 0.1 * growth["tanh"][0]
        ),
        "tanh and sin keep a gap more than ten times as large": all(
            gap[name][1] > 10 * gap["identity"][0] for name in ("tanh", "sin")
        ),
        "their gradients grow, and more for sin, 3 standard errors apart": (
            growth["tanh"][1] > 0 and growth["tanh"][2] < growth["sin"][1]
        ),
    }


def _plain(rows: Sequence[Row]) -> list[gradients.Row]:
    return [gradients.Row(*row[:-1]) for row in rows]


def compare(rows: list[Row]) -> list[Evidence]:
    """Gaps at the deepest layer and growths; the thesis shows pictures."""
    first, deepest = min(row.depth for row in rows), max(row.depth for row in rows)
    shallow = {name: interval(gaps(rows, name)[first])[0] for name in ("identity", "tanh", "sin")}
    found = []
    for name in shallow:
        growth = late_growth(_plain(rows), name)
        explodes = growth[1] > 0.01
        verdict: Verdict = "agrees" if explodes != (name == "identity") else "differs"
        why = "above 0.01 with its interval is to explode"
        found.append(Evidence(f"growth of log ‖∇W₁‖ a layer, {name}", None, *growth, verdict, why))
        gap = interval(gaps(rows, name)[deepest])
        vanishes = gap[2] < 0.1 * shallow[name]
        kept: Verdict = "agrees" if vanishes == (name == "identity") else "differs"
        why = f"{shallow[name]:.2g} in the shallowest; to less than a tenth of it is to vanish"
        found.append(Evidence(f"isometry gap at depth {deepest}, {name}", None, *gap, kept, why))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    """Gradients, and gaps."""
    names = list(dict.fromkeys(row.network for row in rows))
    series = [averaged(name, gaps(rows, name)) for name in names]
    measure = f"isometry gap, mean ± 2 s.e. of {len({row.seed for row in rows})} seeds"
    seen = [row.gap for row in rows]
    right = Panel(
        "Last layer",
        measure,
        "layers of the network",
        series,
        y_range=(max(min(seen) / 2, 1e-8), 2 * max(seen)),
        log_y=True,
    )
    return [gradients.panel(_plain(rows), f"Width and batch {rows[0].width}, gain 1", names), right]
