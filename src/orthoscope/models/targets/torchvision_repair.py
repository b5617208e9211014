"""Makes timm and transformers importable beside a torchvision built for another torch."""

import torch

# Operators stay defined only as long as the library object lives.
_definitions: list[torch.library.Library] = []


def repair_torchvision() -> None:
    """Declare the compiled operators of torchvision, if it is installed but came without them.

    A CUDA build of torchvision beside a CPU build of torch fails on import with "operator
    torchvision::nms does not exist", and takes timm and many models of transformers with it. Neither
    needs the operators to build a network, only their names; calling one still fails.
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
            schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(schema)
        _definitions.append(library)
