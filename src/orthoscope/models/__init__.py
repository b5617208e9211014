"""What it flows through: the networks of the papers, and names for everybody else's."""

from orthoscope.models.alexnet import alexnet_like
from orthoscope.models.blocks import ResidualBlock
from orthoscope.models.convnet import ConvNet
from orthoscope.models.mlp import MLP
from orthoscope.models.recurrent import ModReLU, RecurrentNetwork
from orthoscope.models.resnet import ResNet
from orthoscope.models.targets import Target, TargetError, resolve, resolve_batch
from orthoscope.models.transformer import Transformer

__all__ = [
    "MLP",
    "ConvNet",
    "ModReLU",
    "RecurrentNetwork",
    "ResNet",
    "ResidualBlock",
    "Target",
    "TargetError",
    "Transformer",
    "alexnet_like",
    "resolve",
    "resolve_batch",
]
