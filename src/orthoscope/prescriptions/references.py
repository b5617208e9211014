"""What a training is compared with: the best constant answer, and a shallow network on the same data."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from orthoscope.training import Loss, train

_WIDTH = 128
_STEPS = 10  # of LBFGS, each with a line search: a constant has few directions


class _Constant(nn.Module):
    """The same answer whatever is asked; for a sequence, the same at every place."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.shape = output.shape[1:]
        answer = output.shape[-1:] if output.ndim == 3 else self.shape
        self.answer = nn.Parameter(torch.zeros(answer, dtype=output.dtype, device=output.device))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.answer.expand(len(inputs), *self.shape)


def constant_loss(epoch: Callable[[], Iterable[tuple[Tensor, Tensor]]], output: Tensor, loss: Loss) -> float:
    """The loss of the best constant prediction on one epoch; of sequences, one prediction for every token alike."""
    batches = list(epoch())
    inputs, targets = (torch.cat([batch[part] for batch in batches]) for part in (0, 1))
    constant = _Constant(output)
    optimizer = torch.optim.LBFGS(constant.parameters(), line_search_fn="strong_wolfe")
    history = train(constant, lambda: iter([(inputs, targets)]), optimizer, steps=_STEPS, loss=loss)
    return history.best


def shallow_network(inputs: Tensor, output: Tensor, seed: int) -> nn.Module | None:
    """One hidden layer of 128 units on numbers, an embedding and a linear layer on token ids; None if neither fits."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if inputs.is_floating_point():
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
