"""Diagnose ResNet-34 of timm as it is built, and without its batch norm.

Stock architectures train, so the right verdict on the first is HEALTHY. Without batch norm the residual connections
still keep gradients even, but samples become alike: the effective rank at the output falls to a fifth. Needs the extra
`zoo`; weights are random and nothing is downloaded. Takes about 5 seconds on two cores.
"""

import math
import sys

import torch
from torch import nn

import orthoscope


def build() -> nn.Module:
    try:
        target = orthoscope.models.resolve("timm:resnet34(zero_init_last=False)")
        return target.build(torch.Generator().manual_seed(0))
    except orthoscope.models.TargetError as error:
        sys.exit(str(error))  # one sentence: what is missing, and how to install it


def remove_batch_norm_(model: nn.Module) -> None:
    """Replace every batch norm by the identity, in place."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.Identity())


def report(title: str, model: nn.Module, images: torch.Tensor) -> None:
    diagnosis = orthoscope.diagnose(model, images)
    output = diagnosis.layers[-1]
    print(f"{title}: {diagnosis.verdict}, risk of not training {diagnosis.risk:.0%}")
    print(f"  effective rank at the output: {output.effective_rank:.1f} of {output.capacity}")
    print(f"  gradient norm: a factor of {math.exp(diagnosis.slope):.2f} per layer toward the input")


def main() -> None:
    images = orthoscope.data.images(32, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    model = build()
    report("ResNet-34", model, images)
    remove_batch_norm_(model)
    report("ResNet-34 without batch norm", model, images)


if __name__ == "__main__":
    main()
