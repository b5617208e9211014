"""Networks: those of the papers (`MLP`, `ConvNet`, `ResNet`, `Transformer`, ...), and any other by name (`resolve`)."""

from orthoscope.models.blocks import ResidualBlock
from orthoscope.models.convolutional import ConvNet, alexnet_like
from orthoscope.models.mlp import MLP
from orthoscope.models.recurrent import ModReLU, RecurrentNetwork
from orthoscope.models.resnet import ResNet
from orthoscope.models.targets import Target, TargetError, resolve, resolve_batch
from orthoscope.models.transformer import Transformer

__all__ = [
    "MLP", "ConvNet", "ModReLU", "RecurrentNetwork", "ResNet", "ResidualBlock", "Target", "TargetError", "Transformer",
    "alexnet_like", "resolve", "resolve_batch",
]  # fmt: skip
