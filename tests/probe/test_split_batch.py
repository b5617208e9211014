"""A batch that is split over processes, as far as one process can tell: which samples, and whose statistics."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from orthoscope.probe.distributed import Processes, SplitBatch, SynchronizedBatchNorm
from orthoscope.probe.hooks import class_name
from orthoscope.probe.samples import evenly_spaced


class Alone(Processes):
    """One of several processes, without the others: sums and agreements are its own."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__([], None)
        self.rank = rank


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any), st.integers(1, 40))
def test_parts_choose_the_samples_that_the_whole_batch_would(counts: list[int], most: int) -> None:
    batch = torch.arange(sum(counts))
    parts = [SplitBatch(Alone(rank), counts) for rank in range(len(counts))]
    pieces = [piece[part.local_indices(most)] for piece, part in zip(batch.split(counts), parts, strict=True)]
    assert torch.cat(pieces).tolist() == batch[evenly_spaced(len(batch), most)].tolist()
    assert [len(piece) for piece in pieces] == parts[0].local_counts(most)
    assert len(torch.cat(pieces)) <= most
    assert sum(part.share for part in parts) == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 4), (6, 5, 3, 2)], ids=["vectors", "sequences", "maps"])
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
def test_batch_norm_over_ranks_is_batch_norm(shape: tuple[int, ...], affine: bool, generator: torch.Generator) -> None:
    kinds = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}
    layer = kinds[len(shape)](5, affine=affine).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, generator=generator)
    inputs = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(shape, generator=generator, dtype=torch.float64)
    wanted = layer(inputs)
    with SynchronizedBatchNorm(Alone()):
        found = layer(inputs)
    arguments = (inputs, *layer.parameters())
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(
        torch.autograd.grad(found, arguments, direction), torch.autograd.grad(wanted, arguments, direction), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-11)


def test_running_statistics_are_used_where_they_are_asked_for(generator: torch.Generator) -> None:
    layer = nn.BatchNorm1d(5).eval()
    inputs = torch.randn(6, 5, generator=generator)
    with SynchronizedBatchNorm(Alone()):
        assert torch.equal(layer(inputs), nn.BatchNorm1d(5).eval()(inputs))


def test_a_module_is_called_what_its_author_called_it() -> None:
    assert class_name(nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))) == "Linear"
