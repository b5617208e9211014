"""Networks: those of the papers (`MLP`, `ConvNet`, `ResNet`, `Transformer`, ...), and any other by name (`resolve`)."""

from orthoscope.models.blocks import ModReLU, ResidualBlock
from orthoscope.models.convolutional import ConvNet
from orthoscope.models.mlp import MLP
from orthoscope.models.resnet import ResNet
from orthoscope.models.targets import Target, TargetError, resolve, resolve_batch
from orthoscope.models.transformer import Transformer

__all__ = [
    "MLP", "ConvNet", "ModReLU", "ResNet", "ResidualBlock", "Target", "TargetError", "Transformer", "resolve",
    "resolve_batch",
]  # fmt: skip
