"""What the limits of the verdict rest on: networks of known health, diagnosed, then trained for a short while.

Digits, standardised; 300 steps of SGD with momentum 0.9; the best of five learning rates. Prints the
table of docs/method.md, one network a line (about ten minutes on one core).
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from orthoscope import diagnose
from orthoscope.data import load
from orthoscope.init import lsuv_
from orthoscope.models import MLP
from orthoscope.training import minibatches, train

LEARNING_RATES = (0.1, 0.03, 0.01, 0.003, 0.001)
STEPS, BATCH, DEPTH, WIDTH, SEED = 300, 128, 50, 100, 0


def leaky(slope: float) -> Callable[[], nn.Module]:
    return lambda: nn.LeakyReLU(slope)


def unit_gain(slope: float) -> float:
    """Weight gain with which a leaky ReLU keeps the second moment."""
    return float((2 / (1 + slope**2)) ** 0.5)


NETWORKS: dict[str, dict[str, Any]] = {
    "ReLU, PyTorch's default": {"init": "torch", "bias": True},
    "ReLU, He": {},
    "ReLU, He, 30 layers": {"depth": 30},
    "ReLU, He, 20 layers": {"depth": 20},
    "ReLU, orthogonal, unit variance (LSUV)": {"lsuv": True},
    "ReLU, RMS norm": {"norm": "rms"},
    "ReLU, layer norm": {"norm": "layer"},
    "ReLU, batch norm": {"norm": "batch"},
    "ReLU, batch norm, 20 layers": {"norm": "batch", "depth": 20},
    "ReLU, batch norm, 10 layers": {"norm": "batch", "depth": 10},
    "ReLU, residual": {"residual": True, "residual_scale": 0.2},
    "ReLU, residual, layer norm": {"residual": True, "norm": "layer"},
    "LeakyReLU(0.5), orthogonal": {"activation": leaky(0.5), "init": "orthogonal", "weight_gain": unit_gain(0.5)},
    "LeakyReLU(0.3), orthogonal": {"activation": leaky(0.3), "init": "orthogonal", "weight_gain": unit_gain(0.3)},
    "LeakyReLU(0.3), Gaussian": {"activation": leaky(0.3), "init": "gaussian", "weight_gain": unit_gain(0.3)},
    "tanh, Xavier": {"activation": "tanh", "init": "xavier"},
    "tanh, orthogonal": {"activation": "tanh", "init": "orthogonal"},
    "tanh with gain 0.3, orthogonal": {"activation": "tanh", "init": "orthogonal", "gain": 0.3},
    "tanh, orthogonal, batch norm": {"activation": "tanh", "init": "orthogonal", "norm": "batch"},
    "SELU, LeCun": {"activation": "selu", "init": "gaussian"},
    "GELU, He": {"activation": "gelu"},
    "sigmoid, Xavier": {"activation": "sigmoid", "init": "xavier"},
    "linear, Gaussian": {"activation": "identity", "init": "gaussian"},
}


def lines() -> Iterator[str]:
    data = load("digits")
    inputs = data.inputs.flatten(start_dim=1)
    inputs = (inputs - inputs.mean(0)) / inputs.std()
    shown = inputs[torch.randperm(len(inputs), generator=torch.Generator().manual_seed(SEED))[:100]]
    for name, options in NETWORKS.items():

        def build(options: dict[str, Any] = options) -> MLP:
            chosen = {"depth": DEPTH, **options}
            rescale = chosen.pop("lsuv", False)
            generator = torch.Generator().manual_seed(SEED)
            model = MLP(in_features=64, width=WIDTH, generator=generator, **chosen)
            if rescale:
                lsuv_(model, inputs[:256], generator=generator)
            return model

        diagnosis = diagnose(build(), shown, max_samples=100)
        rank = [layer.effective_rank for layer in diagnosis.layers if layer.units >= WIDTH][-1]
        growth = diagnosis.gradients.growth if diagnosis.gradients else float("nan")
        losses = []
        for rate in LEARNING_RATES:
            model = build()
            epoch = minibatches(inputs, data.labels, BATCH, torch.Generator().manual_seed(SEED))
            losses.append(train(model, epoch, torch.optim.SGD(model.parameters(), rate, 0.9), steps=STEPS).final(20))
        yield f"| {name} | {diagnosis.verdict} | {rank:.1f} | {growth:+.1f} | {min(losses):.2f} |"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("| network, 50 layers unless said | verdict | effective rank of 100 | growth, e-folds | loss |")
    print("|---|---|---|---|---|")
    for line in lines():
        print(line, flush=True)
