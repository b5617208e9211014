"""Simulations behind three figures: `orthoscope.chains` against loops over networks and layers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from chains_loops import (
    first_gradients,
    gaps_of_drawn_columns,
    gaps_of_drawn_matrices,
    gaussian,
    haar,
    isometry_gaps,
    shared_first_gradients,
    single_gaussian,
)
from chains_page import FIGURE_2, FIGURE_6_1, FIGURE_6_3
from orthoscope.chains import Chain, gradients_by_depth, simulate
from orthoscope.metrics import isometry_gap, orthogonality_gap
from orthoscope_papers.daneshmand2021.figure_2a import uneven_input
from orthoscope_papers.joudaki2024 import figure_6_1, figure_6_3
from timing import alternating


@dataclass(frozen=True)
class Row:
    figure: str
    case: str
    method: str
    milliseconds: float  # of all runs
    runs: int  # of the figure
    timed: int  # how many of them were
    calls: int
    peak_mebibytes: float | None
    found: float  # a mean over the runs on which all methods must agree
    error: float | None  # its standard error; None for one run


# A method: the number of runs of one call, and a call that returns one row for each of them.
Method = tuple[int, Callable[[], Tensor]]


def table() -> list[Row]:
    """The figures that are timed in several processes: their targets are close to the measured ratios."""
    return [*figure_6(), *gradients()]


def figure_2(widths: tuple[int, ...] = (16, 32, 64, 128, 256, 512), depth: int = 500, runs: int = 20) -> list[Row]:
    """Orthogonality gap of 4 samples at every layer; found: mean log V of the deeper four fifths."""
    rows, few, more = [], range(max(1, runs // 20)), range(max(1, runs // 4))
    for width in widths:
        start, chain = uneven_input(4, width, 1e-6), Chain(width, norm="batch_uncentered")

        def simulated(start: Tensor = start, chain: Chain = chain) -> Tensor:
            record = {"gap": orthogonality_gap}
            return simulate(start, chain, depth, seeds=range(runs), record=record).values["gap"][:, 1:]

        methods: dict[str, Method] = {
            "orthoscope simulate": (runs, simulated),
            "loop": (len(few), lambda start=start: gaps_of_drawn_matrices(start, depth, few)),
            "loop, drawn in float32": (
                len(few),
                lambda start=start: gaps_of_drawn_matrices(start, depth, few, single_gaussian),
            ),
            "loop, 4 columns drawn": (len(more), lambda start=start: gaps_of_drawn_columns(start, depth, more)),
        }
        rows += _rows(FIGURE_2, f"width {width}", methods, runs, lambda gaps: gaps[:, depth // 5 :].log().mean(1))
    return rows


def figure_6(config: figure_6_1.Config | None = None) -> list[Row]:
    """Isometry gap of every fourth layer, as many samples as units, Haar weights; found: mean log ψ of the last."""
    config = config or figure_6_1.Config()
    rows, runs = [], len(config.seeds)
    for width in config.widths:
        starts, few = figure_6_1.starts(width, config), max(1, runs // 5)

        def simulated(starts: Tensor = starts, width: int = width) -> Tensor:
            chain = Chain(width, init="orthogonal", norm="batch_uncentered")
            layers = range(config.every, config.depth + 1, config.every)
            record = {"gap": isometry_gap}
            return simulate(starts, chain, config.depth, seeds=config.seeds, record=record, layers=layers).values["gap"]

        def looped(starts: Tensor = starts[:few]) -> Tensor:
            return isometry_gaps(starts, config.depth, config.every, range(len(starts)))

        methods: dict[str, Method] = {
            "orthoscope simulate": (runs, simulated),
            "loop, QR": (few, looped),
            "loop, QR, one thread": (few, lambda looped=looped: _on_one_thread(looped)),
        }
        rows += _rows(FIGURE_6_1, f"width and batch {width}", methods, runs, lambda gaps: gaps[:, -1].log())
    return rows


def gradients(config: figure_6_3.Config | None = None) -> list[Row]:
    """First gradients at all depths; normal numbers for images, of as many pixels as units. Found: the deepest."""
    config = config or figure_6_3.Config()
    rows, runs, depths = [], len(config.seeds), config.depths
    few = max(1, runs // 10)
    source = torch.Generator().manual_seed(0)
    starts = torch.randn(runs, config.batch, config.width, generator=source, dtype=torch.float64)
    for init in config.inits:
        matrix = {"orthogonal": haar, "gaussian": gaussian}[init]

        def simulated(init: str = init) -> Tensor:
            chain = Chain(config.width, init=init, norm="batch_uncentered")
            return gradients_by_depth(starts, chain, depths, seeds=config.seeds)

        methods: dict[str, Method] = {
            "orthoscope gradients_by_depth": (runs, simulated),
            "loop, autograd": (few, lambda matrix=matrix: first_gradients(starts[:few], depths, range(few), matrix)),
            "loop, autograd, depths share a network": (
                few,
                lambda matrix=matrix: shared_first_gradients(starts[:few], depths, range(few), matrix),
            ),
            "loop, autograd, one thread": (
                few,
                lambda matrix=matrix: _on_one_thread(lambda: first_gradients(starts[:few], depths, range(few), matrix)),
            ),
        }
        rows += _rows(FIGURE_6_3, f"{init}, width and batch {config.width}", methods, runs, lambda g: g[:, -1], 3)
    return rows


def _on_one_thread(call: Callable[[], Tensor]) -> Tensor:
    """Small factorizations may be slower with a second thread: the faster of both counts for the peer."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return call()
    finally:
        torch.set_num_threads(threads)


def _rows(
    figure: str,
    case: str,
    methods: Mapping[str, Method],
    runs: int,
    reduced: Callable[[Tensor], Tensor],
    rounds: int = 5,
) -> list[Row]:
    """Time all methods alternately; a method that does only some of the runs is scaled up to all."""
    answers: dict[str, Tensor] = {}

    def kept(name: str) -> Callable[[], None]:
        return lambda: answers.update({name: methods[name][1]()})

    costs = alternating({name: kept(name) for name in methods}, rounds=rounds)
    rows = []
    for name, cost in costs.items():
        timed, of_each = methods[name][0], reduced(answers[name])
        rows.append(
            Row(
                figure=figure,
                case=case,
                method=name,
                milliseconds=1e3 * cost.seconds * runs / timed,
                runs=runs,
                timed=timed,
                calls=cost.calls,
                peak_mebibytes=None if cost.peak_bytes is None else cost.peak_bytes / 2**20,
                found=float(of_each.mean()),
                error=float(of_each.std()) / math.sqrt(timed) if timed > 1 else None,
            )
        )
    return rows
