"""Train a small Transformer on the text of Python's manual with Muon and with AdamW, and compare the losses.

Muon replaces the momentum of every hidden weight matrix by the nearest orthogonal matrix, so that all singular values
of an update are nearly equal; embeddings, norms, biases and the head follow AdamW. Prints both losses after equal
numbers of steps, and the effective rank of an update of one weight. Takes about 10 seconds on two cores.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

import orthoscope
from orthoscope.data.dataset import python_manual
from orthoscope.optim import Muon, muon_parameter_groups

TEXT = python_manual("train")  # characters as numbers below 128
LENGTH, BATCH, STEPS, RATE = 64, 16, 120, 1e-2
OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    # With this scale an update has the size that AdamW gives it, so that both take the same learning rate.
    "Muon": lambda model: Muon(muon_parameter_groups(model), lr=RATE, scale="match_rms_adamw"),
    "AdamW": lambda model: AdamW(model.parameters(), lr=RATE, weight_decay=0),
}


def train(name: str) -> tuple[float, float]:
    """Loss in nats a character, mean over the last ten steps; effective rank of the last update of one weight."""
    model = orthoscope.models.Transformer(
        depth=4, width=64, heads=4, vocabulary=128, length=LENGTH, generator=torch.Generator().manual_seed(0)
    )
    optimizer = OPTIMIZERS[name](model)
    weight = model.get_parameter("layers.1.mlp.0.weight")
    generator, losses = torch.Generator().manual_seed(0), []
    for _ in range(STEPS):
        starts = torch.randint(len(TEXT) - LENGTH, (BATCH, 1), generator=generator)
        window = TEXT[starts + torch.arange(LENGTH + 1)]
        logits = model(window[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        before = weight.detach().clone()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-10:]) / 10, float(orthoscope.metrics.effective_rank(weight.detach() - before))


def main() -> None:
    for name in OPTIMIZERS:
        loss, rank = train(name)
        print(f"{name}: loss {loss:.2f}, effective rank of an update {rank:.0f} of 64")


if __name__ == "__main__":
    main()
