"""What a kernel map and a long trajectory cost, and the same maps by `dks`: values and times, alternating, medians.

`dks` (DeepMind's deep kernel shaping, 0.1.2) calls the map of an activation its local C map, and integrates it in
the plane with scipy, one overlap at a time; ours is found once, for all overlaps. Compared is a map at three
overlaps, from nothing. Run it on a quiet machine: `make benchmark-theory` installs dks.
"""

import importlib
import importlib.util
from functools import partial

import numpy as np
import torch

from orthoscope.theory.kernel.kernel_map import kernel_map
from timing import alternating

ROUNDS = 7
# Our name, theirs.
NAMES = {
    "tanh": "tanh",
    "relu": "relu",
    "gelu_tanh": "gelu",
    "sigmoid": "sigmoid",
    "softplus": "softplus",
    "selu": "selu",
}
OVERLAPS = np.array([-0.9, 0.3, 0.9])
PAIRS, DEPTH = 10_000, 50
LIMITS = {"map": 0.020, "trajectory": 0.100}


def ours(name: str) -> np.ndarray:
    """From nothing: the map is made anew."""
    return kernel_map(name)(torch.from_numpy(OVERLAPS)).numpy()


def theirs(name: str) -> np.ndarray:
    """The local C map of dks at input variance 1, which is κ."""
    getter = importlib.import_module("dks.base.activation_getter")
    transform = importlib.import_module("dks.base.activation_transform")
    function = getter.get_activation_function(NAMES[name])
    return np.array([transform._calc_c_map(function, c=c) for c in OVERLAPS])


def made_anew(name: str) -> float:
    return kernel_map(name)(0.3)


def report_costs() -> None:
    starts = torch.rand(PAIRS, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    for name in (*NAMES, "gelu"):
        kappa = kernel_map(name)
        costs = alternating(
            {"made": partial(made_anew, name), "followed": partial(kappa.trajectory, starts, DEPTH)}, ROUNDS
        )
        made, followed = costs["made"].seconds, costs["followed"].seconds
        print(
            f"{name:9s} map {made * 1e3:6.1f} ms (limit {LIMITS['map'] * 1e3:.0f} for gelu)   "
            f"{DEPTH} layers of {PAIRS} pairs {followed * 1e3:6.1f} ms (limit {LIMITS['trajectory'] * 1e3:.0f})",
            flush=True,
        )


def report_dks() -> None:
    if importlib.util.find_spec("dks") is None:
        print("dks is not installed, so nothing is compared: pip install -c constraints.txt .[peers]")
        return
    for name in NAMES:
        difference = np.abs(ours(name) - theirs(name)).max()
        costs = alternating({"ours": partial(ours, name), "dks": partial(theirs, name)}, rounds=1)
        mine, other = costs["ours"].seconds, costs["dks"].seconds
        print(
            f"{name:9s} {len(OVERLAPS)} overlaps: ours {mine * 1e3:7.1f} ms  dks {other * 1e3:9.1f} ms   "
            f"ratio {other / mine:8.1f}x   largest difference {difference:.1e}",
            flush=True,
        )


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, medians of {ROUNDS} turns")
    report_costs()
    report_dks()


if __name__ == "__main__":
    main()
