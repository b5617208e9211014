"""Copying task: a recurrent network with an orthogonal recurrent weight remembers, an unconstrained one does not.

Five symbols of eight are shown, then blanks; after `DELAY` steps the network has to repeat the symbols. A network that
remembers nothing answers blanks and guesses: a mean cross-entropy of 5 ln 8 / (DELAY + 10). Prints the loss of both
networks after the same training, and that of guessing. The unconstrained weight starts as PyTorch draws it. Takes about
10 seconds on two cores.
"""

import math

import torch
from torch import Tensor, nn

import orthoscope

SYMBOLS, SHOWN, DELAY, STEPS = 8, 5, 60, 300
BLANK, SIGNAL, WORDS = 0, SYMBOLS + 1, SYMBOLS + 2
GUESSING = SHOWN * math.log(SYMBOLS) / (DELAY + 2 * SHOWN)


def sequences(generator: torch.Generator, batch: int = 32) -> tuple[Tensor, Tensor]:
    """Inputs, one-hot, and the answers at every step: blanks, then the symbols shown at the start."""
    symbols = torch.randint(1, SYMBOLS + 1, (batch, SHOWN), generator=generator)
    inputs = torch.full((batch, DELAY + 2 * SHOWN), BLANK)
    answers = inputs.clone()
    inputs[:, :SHOWN] = answers[:, -SHOWN:] = symbols
    inputs[:, SHOWN + DELAY - 1] = SIGNAL
    return nn.functional.one_hot(inputs, WORDS).float(), answers


class Recurrent(nn.Module):
    """h = |W h + U x| with signs kept (modReLU), and a linear head at every step."""

    def __init__(self, orthogonal: bool, hidden: int = 64) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inputs = nn.Linear(WORDS, hidden, bias=False)
        self.recurrent = nn.Linear(hidden, hidden, bias=False)
        self.activation = orthoscope.models.ModReLU(hidden)
        self.head = nn.Linear(hidden, WORDS)
        if orthogonal:
            orthoscope.layers.orthogonal(self.recurrent, start="haar")  # W'W = I, whatever the optimizer does

    def forward(self, inputs: Tensor) -> Tensor:
        weight, states = self.recurrent.weight, []  # read once: an orthogonal weight is computed at every access
        state = torch.zeros(len(inputs), len(weight))
        for drive in self.inputs(inputs).unbind(1):
            state = self.activation(drive + state @ weight.T)
            states.append(state)
        return self.head(torch.stack(states, 1))


def final_loss(orthogonal: bool) -> float:
    """Cross-entropy of the answers, mean over the last twenty steps of RMSprop."""
    model, generator, losses = Recurrent(orthogonal), torch.Generator().manual_seed(0), []
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.9)
    for _ in range(STEPS):
        inputs, answers = sequences(generator)
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-20:]) / 20


def main() -> None:
    print(f"orthogonal recurrent weight:    loss {final_loss(orthogonal=True):.3f}")
    print(f"unconstrained recurrent weight: loss {final_loss(orthogonal=False):.3f}")
    print(f"guessing:                       loss {GUESSING:.3f}")


if __name__ == "__main__":
    main()
