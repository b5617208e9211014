"""Which networks go to which core decides how long they take, and nothing else."""

import threading

import torch
from torch import Tensor

from orthoscope.chains import Chain, gradients_by_depth, simulate
from orthoscope.metrics import orthogonality_gap


def batch(samples: int, units: int) -> Tensor:
    return torch.randn(samples, units, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Witness:
    """A metric, or a loss, that remembers who called it and on how many cores."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.cores: set[int] = set()

    def __call__(self, hidden: Tensor) -> Tensor:
        self.threads.add(threading.get_ident())
        self.cores.add(torch.get_num_threads())
        return hidden.square().sum((1, 2))


def test_groups_on_several_threads_give_the_same_numbers() -> None:
    arguments = {"seeds": range(40), "record": {"V": orthogonality_gap}, "layers": [0, 100]}
    chain = Chain(64, "orthogonal", norm="batch_uncentred")
    one = simulate(batch(32, 64), chain, 100, **arguments)
    try:
        torch.set_num_threads(2)
        two = simulate(batch(32, 64), chain, 100, **arguments)
    finally:
        torch.set_num_threads(1)
    torch.testing.assert_close(one.values["V"], two.values["V"], rtol=1e-8, atol=0)


def test_deep_narrow_networks_stay_on_one_core_and_wide_ones_take_all() -> None:
    """Threads would wait for each other between any two of the many small operations of a narrow layer."""
    deep, wide, back = Witness(), Witness(), Witness()
    try:
        torch.set_num_threads(2)
        narrow = Chain(64, norm="batch_uncentred")
        simulate(batch(4, 64), narrow, 1600, seeds=range(20), record={"who": deep}, layers=[1600])
        haar = Chain(100, "orthogonal", norm="batch_uncentred")
        simulate(batch(100, 100), haar, 5, seeds=range(20), record={"who": wide}, layers=[5])
        gradients_by_depth(batch(4, 24), Chain(24), [400], seeds=range(20), loss=back)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert deep.threads == back.threads == {threading.get_ident()}
    assert threading.get_ident() not in wide.threads
    assert deep.cores == wide.cores == back.cores == {1}
