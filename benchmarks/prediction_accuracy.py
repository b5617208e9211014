"""Predicted beside measured: the end of networks of `orthoscope.models`, mean over seeds with its standard error.

python benchmarks/prediction_accuracy.py            # the table of docs/theory.md, about a minute
"""

import statistics
from collections.abc import Callable

import torch

from orthoscope import diagnose
from orthoscope.diagnosis import Diagnosis
from orthoscope.models import resolve

SEEDS, WIDTH = 10, 256
NETWORKS: tuple[tuple[str, int], ...] = (  # target, samples
    ("mlp(depth=30, width=256, activation=relu)", 64),
    ("mlp(depth=30, width=256, activation=relu, init=orthogonal, weight_gain=1.4142135)", 64),
    ("mlp(depth=30, width=256, activation=tanh, init=xavier)", 64),
    ("mlp(depth=30, width=256, activation=tanh, init=xavier, bias=True, bias_std=0.3)", 64),
    ("mlp(depth=30, width=256, activation=tanh, gain=0.3, init=orthogonal)", 64),
    ("mlp(depth=15, width=256, activation=sigmoid, init=xavier)", 64),
    ("mlp(depth=30, width=256, activation=gelu, norm=layer, init=gaussian)", 64),
    ("mlp(depth=30, width=256, activation=gelu, norm=layer, order=activation-norm, init=gaussian)", 64),
    ("mlp(depth=30, width=256, activation=silu, norm=rms, init=gaussian)", 64),
    ("mlp(depth=30, width=256, activation=relu, norm=batch)", 64),
    ("mlp(depth=30, width=256, activation=tanh, norm=batch, init=gaussian)", 16),
    ("mlp(depth=30, width=256, activation=identity, norm=batch-uncentered, init=gaussian)", 16),
    ("mlp(depth=30, width=256, activation=tanh, norm=batch, init=orthogonal)", 64),
    ("mlp(depth=30, width=256, activation=relu, norm=layer, residual=True, residual_scale=0.2)", 64),
    ("mlp(depth=30, width=256, activation=relu, norm=batch, residual=True, residual_scale=0.3)", 64),
)


def diagnosed(target: str, samples: int, seed: int) -> Diagnosis:
    generator = torch.Generator().manual_seed(seed)
    found = resolve(target)
    return diagnose(found.build(generator), found.batch(samples, generator), seed=seed)


def main() -> None:
    print(f"{SEEDS} seeds; predicted / measured ± standard error, at the last hidden layer\n")
    print("| network | overlap | gap | rank | isometry gap | slope |")
    print("|---|---|---|---|---|---|")
    for target, samples in NETWORKS:
        diagnoses = [diagnosed(target, samples, seed) for seed in range(SEEDS)]
        last = [[row for row in diagnosis.layers if row.units == WIDTH][-1] for diagnosis in diagnoses]
        expected = [diagnosis.expected.of(row) for diagnosis, row in zip(diagnoses, last, strict=True)]
        columns = [
            _column(lambda row: row.overlap, expected, last, 3),
            _column(lambda row: row.gap, expected, last, 3),
            _column(lambda row: row.effective_rank, expected, last, 1),
            _column(lambda row: row.isometry_gap, expected, last, 2),
            _cell([d.expected_slope for d in diagnoses], [d.slope for d in diagnoses], 3),
        ]
        print(
            f"| {target.removeprefix('mlp(').removesuffix(')')}, n={samples} | " + " | ".join(columns) + " |",
            flush=True,
        )


def _column(number: Callable[[object], float], expected: list[object], measured: list[object], digits: int) -> str:
    return _cell([number(row) for row in expected], [number(row) for row in measured], digits)


def _cell(predicted: list[float], measured: list[float], digits: int) -> str:
    error = statistics.stdev(measured) / len(measured) ** 0.5
    # Rounded first, so that nothing reads -0.000.
    numbers = [round(statistics.mean(values), digits) + 0.0 for values in (predicted, measured)]
    return f"{numbers[0]:.{digits}f} / {numbers[1]:.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    main()
