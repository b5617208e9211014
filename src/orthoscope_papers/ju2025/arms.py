"""The arms of `approaches`: free weights, three ways to make them orthogonal, and Muon, each with as many settings.

Every arm is a network, an optimizer and, for a penalty, what is added to the loss. Hidden weights alone are treated;
the head and the biases are free in all of them.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import nn
from torch.optim import SGD, Adam, Optimizer

from orthoscope.layers import OrthogonalityPenalty, orthogonal
from orthoscope.layers.orthogonality_penalty import Kind
from orthoscope.models import MLP
from orthoscope.optim import (
    Landing,
    Muon,
    RiemannianAdam,
    RiemannianSGD,
    muon_parameter_groups,
    stiefel_parameter_groups,
)

FREE, PENALTY, MANIFOLD, PARAMETRIZATION, MUON = "free", "penalty", "manifold", "parametrization", "Muon"
APPROACHES = FREE, PENALTY, MANIFOLD, PARAMETRIZATION, MUON
HIDDEN = "layers.*"  # the names of hidden layers
MOMENTUM = 0.9


class Trial(NamedTuple):
    """A setting: the learning rate of everything, and the weight of the penalty, 0 for none."""

    learning_rate: float
    penalty_weight: float = 0.0


ADAM_TRIALS = tuple(map(Trial, (3e-4, 1e-3, 3e-3, 1e-2)))
SGD_TRIALS = tuple(map(Trial, (3e-3, 1e-2, 3e-2, 1e-1)))
# As many, so two rates and two weights.
PENALTY_TRIALS = tuple(Trial(rate, weight) for rate in (1e-3, 3e-3) for weight in (1e-2, 1e-1))


class Arm(NamedTuple):
    approach: str
    optimizer: Callable[[MLP, float], Optimizer]
    trials: tuple[Trial, ...]
    start: str = "orthogonal"  # of all weights
    penalty: Kind | None = None
    map: str | None = None  # of a parametrization


def adam(model: MLP, rate: float) -> Optimizer:
    return Adam(model.parameters(), rate)


def sgd(model: MLP, rate: float) -> Optimizer:
    return SGD(model.parameters(), rate, momentum=MOMENTUM)


def riemannian_sgd(model: MLP, rate: float) -> Optimizer:
    return RiemannianSGD(stiefel_parameter_groups(model, HIDDEN), rate, momentum=MOMENTUM)


def riemannian_adam(model: MLP, rate: float) -> Optimizer:
    return RiemannianAdam(stiefel_parameter_groups(model, HIDDEN), rate)


def landing(model: MLP, rate: float) -> Optimizer:
    return Landing(stiefel_parameter_groups(model, HIDDEN), rate, momentum=MOMENTUM)


def muon(model: MLP, rate: float) -> Optimizer:
    """Steps of the size of Adam's, so that one rate serves the hidden weights and the rest."""
    return Muon(muon_parameter_groups(model, HIDDEN), rate, scale="match_rms_adamw", adamw_lr=rate)


ARMS: Mapping[str, Arm] = {
    "Adam, Gaussian start": Arm(FREE, adam, ADAM_TRIALS, start="gaussian"),
    "Adam": Arm(FREE, adam, ADAM_TRIALS),
    "SGD": Arm(FREE, sgd, SGD_TRIALS),
    "SO": Arm(PENALTY, adam, PENALTY_TRIALS, penalty="so"),
    "DSO": Arm(PENALTY, adam, PENALTY_TRIALS, penalty="dso"),
    "SRIP": Arm(PENALTY, adam, PENALTY_TRIALS, penalty="srip"),
    "Riemannian SGD": Arm(MANIFOLD, riemannian_sgd, SGD_TRIALS),
    "Riemannian Adam": Arm(MANIFOLD, riemannian_adam, ADAM_TRIALS),
    "Landing": Arm(MANIFOLD, landing, SGD_TRIALS),
    "Householder": Arm(PARAMETRIZATION, adam, ADAM_TRIALS, map="householder"),
    "Cayley": Arm(PARAMETRIZATION, adam, ADAM_TRIALS, map="cayley"),
    "exponential": Arm(PARAMETRIZATION, adam, ADAM_TRIALS, map="exponential"),
    "Givens": Arm(PARAMETRIZATION, adam, ADAM_TRIALS, map="givens"),
    "Muon": Arm(MUON, muon, ADAM_TRIALS),
}


def hidden_layers(model: MLP) -> list[nn.Linear]:
    return [layer for layer in model.layers.modules() if isinstance(layer, nn.Linear)]


def constrained_(model: MLP, arm: Arm) -> None:
    """Make the hidden weights orthogonal by construction, if the arm is of that kind."""
    if arm.map is not None:
        for layer in hidden_layers(model):
            orthogonal(layer, map=arm.map)


def penalty_of(model: MLP, arm: Arm, trial: Trial) -> OrthogonalityPenalty | None:
    """What the arm adds to the loss."""
    if arm.penalty is None:
        return None
    return OrthogonalityPenalty(model, arm.penalty, trial.penalty_weight, HIDDEN)
