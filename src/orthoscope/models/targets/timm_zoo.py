"""`timm:NAME`: any architecture of timm, at random initialization, without a download."""

import importlib
from typing import Any

import torch
from torch import nn

from orthoscope.data import images
from orthoscope.models.targets.target import Target, TargetError, batches, builder, close_to, parse_call
from orthoscope.models.targets.user_code import running

PREFIX = "timm:"


def resolve_timm(text: str) -> Target:
    """The target of `timm:resnet18` or `timm:vit_tiny_patch16_224(img_size=64, num_classes=10)`."""
    name, arguments = parse_call(text.removeprefix(PREFIX))
    timm = required("timm", text)
    if not timm.is_model(name):
        meant = close_to(name, timm.list_models(), "`timm.list_models()` lists them")
        raise TargetError(f"timm has no model {name!r}: {meant}")
    if "pretrained" in arguments:
        raise TargetError(f"{text!r} asks for pretrained weights, but targets are randomly initialized: leave it out")

    def make() -> nn.Module:
        with running(text):
            model: nn.Module = timm.create_model(name, pretrained=False, **arguments)
        return model

    return Target(text, builder(text, make, "choose a smaller model"), batches(images, *_input_size(name, arguments)))


def required(package: str, text: str) -> Any:
    """Import a package of the extra `zoo`."""
    repair_torchvision()
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name not in (package, "torchvision"):
            raise
        raise TargetError(f'{text!r} needs {error.name}: pip install "orthoscope[zoo]"') from error


def _input_size(name: str, arguments: dict[str, Any]) -> tuple[int, int, int]:
    settings = importlib.import_module("timm.models").get_pretrained_cfg(name)
    channels, height, width = getattr(settings, "input_size", None) or (3, 224, 224)
    size = arguments.get("img_size", (height, width))
    height, width = (size, size) if isinstance(size, int) else size
    return arguments.get("in_chans", channels), height, width


# Operators stay defined only while the library object exists.
_definitions: list[torch.library.Library] = []


def repair_torchvision() -> None:
    """Declare the compiled operators of torchvision if it is installed without them.

    A CUDA build of torchvision with a CPU build of torch fails on import with "operator torchvision::nms does not
    exist", and with it timm and many models of transformers. Building a network needs only the names of the operators;
    calling one still fails.
    """
    if _definitions:
        return
    try:
        import torchvision  # type: ignore[import-untyped] # noqa: F401
    except ImportError:
        return
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _definitions.append(library)
