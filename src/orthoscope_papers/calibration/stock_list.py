"""Which stock architectures are diagnosed: a list by rule, made once and kept in the package.

timm: of every module in `timm.models` the registered architecture with the fewest parameters that builds and takes the
smallest of `SIZES` that any of the module's takes. transformers: every model type with a head for text, images or
sound, or a base model, in the order of `CONFIG_MAPPING`. What is left out stands in the list with its reason.
`python -m orthoscope_papers.calibration.stock_list` makes the list again, in minutes.
"""

import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from orthoscope.files import replace
from orthoscope.models.targets.timm_zoo import required
from orthoscope_papers.calibration.stock_networks import Stock, hugging_face_network, quiet, timm_network
from orthoscope_papers.results import rows_of, table_of

FILE = Path(__file__).parent / "stock_list.csv"
SIZES = (64, 96, 128, 224)  # pixels of an image, tried in this order
MOST_PARAMETERS = 60_000_000  # larger networks are left out: a diagnosis of each has to take seconds
_TRIED = 6  # architectures of a module that are tried, smallest first
_EMBEDDED = "digits"
_FEW = 2


class Architecture(NamedTuple):
    """An architecture of the list; `reason` says why it is left out, empty if it is not."""

    package: str
    family: str  # module of timm, model type of transformers
    name: str
    size: int  # pixels of an image; 0 where the configuration says it
    resizable: int  # 1 if the architecture is told the size
    parameters: int
    reason: str

    def build(self, dataset: str, samples: int, seed: int = 0) -> Stock:
        """Build the network with so many samples of its data."""
        if self.package == "timm":
            return timm_network(self.name, self.size, bool(self.resizable), dataset, samples, seed)
        return hugging_face_network(self.name, dataset, samples, seed)


@cache
def listed() -> tuple[Architecture, ...]:
    """Every architecture of the committed list, those left out as well."""
    return tuple(rows_of(FILE.read_text("utf-8"), Architecture))


def covered() -> tuple[Architecture, ...]:
    """The architectures that are diagnosed."""
    return tuple(one for one in listed() if not one.reason)


def timm_architecture(module: str) -> Architecture:
    """Apply the rule to a module of timm."""
    timm = required("timm", "timm")
    sizes = sorted((_parameters(name), name) for name in timm.list_models(module=module))
    reason = "it has no architecture"
    for parameters, name in sizes[:_TRIED]:
        if parameters > MOST_PARAMETERS:
            reason = f"its smallest, {name}, has {parameters / 1e6:.0f} million parameters"
            break
        for size, resizable in _sizes(name):
            tried = Architecture("timm", module, name, size, resizable, parameters, "")
            reason = _reason(tried)
            if not reason:
                return tried
    name = sizes[0][1] if sizes else ""
    return Architecture("timm", module, name, 0, 0, 0, reason)


def hugging_face_architecture(model_type: str) -> Architecture:
    """Apply the rule to a model type of transformers."""
    tried = Architecture("transformers", model_type, model_type, 0, 0, 0, "")
    return tried._replace(reason=_reason(tried))


def _reason(tried: Architecture) -> str:
    """Why an architecture cannot be diagnosed: the error of its construction, of a pass or of its loss, if any."""
    try:
        stock = tried.build(_EMBEDDED, _FEW)
        parameters = sum(parameter.numel() for parameter in stock.model.parameters())
        if parameters > MOST_PARAMETERS:
            return f"{parameters / 1e6:.0f} million parameters"
        with torch.no_grad(), quiet():
            output = stock.call(stock.arguments)
            if stock.loss is not None:
                stock.loss_of(output)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    finally:
        gc.collect()
    return ""


def _sizes(name: str) -> Iterator[tuple[int, int]]:
    """Sizes to try with an architecture, each first as an argument of its constructor."""
    for size in SIZES:
        yield size, 1
        yield size, 0


def _parameters(name: str) -> int:
    timm = required("timm", "timm")
    with quiet(), torch.device("meta"):
        try:
            model = timm.create_model(name, pretrained=False)
        except Exception:
            return MOST_PARAMETERS + 1
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Write the list."""
    timm, transformers = required("timm", "timm"), required("transformers", "transformers")
    found = [timm_architecture(module) for module in timm.list_modules()]
    found += [hugging_face_architecture(model_type) for model_type in transformers.CONFIG_MAPPING]
    replace(FILE, table_of(found, Architecture))


if __name__ == "__main__":
    main()
