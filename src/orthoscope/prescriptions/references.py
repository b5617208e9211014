"""What a training is compared with: the best constant answer, and a shallow network on the same data."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from orthoscope.training import Loss, train

_WIDTH = 128
_STEPS = 10  # of LBFGS, each with a line search: a constant has few directions


class _Constant(nn.Module):
    """The same answer whatever is asked; for a sequence, the same at every place, of which there may be any number."""

    def __init__(self, inputs: Tensor, output: Tensor) -> None:
        super().__init__()
        self.shape = output.shape[1:]
        self.any_length = output.ndim == 3 and inputs.shape[1] == output.shape[1]
        answer = output.shape[-1:] if output.ndim == 3 else self.shape
        self.answer = nn.Parameter(torch.zeros(answer, dtype=output.dtype, device=output.device))

    def forward(self, inputs: Tensor) -> Tensor:
        shape = (inputs.shape[1], *self.shape[1:]) if self.any_length else self.shape
        return self.answer.expand(len(inputs), *shape)


def constant_loss(batches: Sequence[tuple[Tensor, Tensor]], output: Tensor, loss: Loss) -> float:
    r"""The loss of the best constant prediction $c$; of sequences, one prediction for every token alike.

    $$ \min_c \sum_b n_b \, \text{loss}(c, y_b) \Big/ \sum_b n_b $$

    with $n_b$ the number of targets in batch $b$: for a mean over targets, that of all batches together. `output` is
    what the network gives for the first batch.
    """
    constant = _Constant(batches[0][0], output)
    entries = sum(targets.numel() for _, targets in batches)

    def over_all(_: Tensor, __: Tensor) -> Tensor:
        # One graph at a time: batches may differ in length, and those of all together need not fit into memory.
        value, slope = torch.zeros(()), torch.zeros_like(constant.answer)
        for inputs, targets in batches:
            part = loss(constant(inputs), targets.to(output.device)) * (targets.numel() / entries)
            slope += torch.autograd.grad(part, constant.answer)[0]
            value = value.to(part) + part.detach()
        return value + ((constant.answer - constant.answer.detach()) * slope).sum()  # adds 0, and has that slope

    optimizer = torch.optim.LBFGS(constant.parameters(), line_search_fn="strong_wolfe")
    history = train(constant, lambda: batches[:1], optimizer, steps=_STEPS, loss=over_all)
    return history.best


def shallow_network(batches: Sequence[Tensor], output: Tensor, seed: int) -> nn.Module | None:
    """One hidden layer of 128 units on numbers, an embedding and a linear layer on token ids; None if neither fits.

    `batches` are inputs; numbers must come in samples of one shape. `output` is of the first batch.
    """
    inputs = batches[0]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if inputs.is_floating_point():
            if any(one.shape[1:] != inputs.shape[1:] for one in batches):
                return None
            features, outputs = math.prod(inputs.shape[1:]), math.prod(output.shape[1:])
            return nn.Sequential(
                nn.Flatten(),
                nn.Linear(features, _WIDTH, dtype=inputs.dtype),
                nn.ReLU(),
                nn.Linear(_WIDTH, outputs, dtype=inputs.dtype),
                nn.Unflatten(1, output.shape[1:]),
            ).to(output.device)
        if inputs.ndim == 2 and output.ndim == 3 and output.shape[:2] == inputs.shape:
            return nn.Sequential(nn.Embedding(output.shape[2], _WIDTH), nn.Linear(_WIDTH, output.shape[2])).to(
                output.device
            )
    return None
