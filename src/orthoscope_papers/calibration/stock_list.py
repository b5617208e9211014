"""Which stock architectures are diagnosed: a list by rule, made once and kept in the package.

timm: of every module in `timm.models`, and in it of every word with which names begin (`resnet`, `seresnext`), the
architecture with the fewest parameters that builds and takes images of one of `SIZES`. transformers: every model type
with a head for text, images or sound, or a base model, in the order of `CONFIG_MAPPING`. What is left out stands in the
list with its reason. `python -m orthoscope_papers.calibration.stock_list` adds what is missing in it.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from orthoscope.files import replace
from orthoscope.models.targets.timm_zoo import required
from orthoscope_papers.calibration.stock_networks import (
    Stock,
    from_tiny_configuration,
    hugging_face_network,
    quiet,
    timm_network,
)
from orthoscope_papers.results import rows_of, table_of

FILE = Path(__file__).parent / "stock_list.csv"
SIZES = (64, 96, 128, 224)  # pixels of an image, tried in this order
MOST_PARAMETERS = 30_000_000  # larger networks are left out: a diagnosis of each has to take seconds
_TRIED = 6  # architectures of a module that are tried, smallest first
_EMBEDDED = "digits"
_FEW = 2
_PATH = re.compile(r"(?<![\w/])/(?:[\w.-]+/)+[\w.-]+")
_FIRST_WORD = re.compile(r"[a-z]+")


# Seen in a diagnosis: parameters do not tell how much memory activations take.
_TOO_MUCH_MEMORY = {"nemo_speechlm": "activations of 16 samples take 8 GB"}


class Architecture(NamedTuple):
    """An architecture of the list; `reason` says why it is left out, empty if it is not."""

    package: str
    family: str  # module and first word in timm, model type of transformers
    name: str
    size: int  # pixels of an image; 0 where the configuration says it
    resizable: int  # 1 if the architecture is told the size
    parameters: int
    reason: str

    @property
    def key(self) -> str:
        """Package and name."""
        return f"{self.package}:{self.name}"

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


def timm_families() -> dict[str, list[str]]:
    """Names of timm's architectures by module and first word, without the miniatures of its own tests."""
    timm = required("timm", "timm")
    found: dict[str, list[str]] = {}
    for module in timm.list_modules():
        for name in timm.list_models(module=module):
            if not name.startswith("test_"):
                found.setdefault(f"{module}/{_FIRST_WORD.match(name)[0]}", []).append(name)  # type: ignore[index]
    return found


def timm_architecture(family: str) -> Architecture:
    """Apply the rule to a family of timm."""
    sizes = sorted((_parameters(name), name) for name in timm_families()[family])
    parameters, name = sizes[0]
    reason = f"{parameters / 1e6:.0f} million parameters" if parameters > MOST_PARAMETERS else ""
    for parameters, name in sizes[:_TRIED]:
        for size in SIZES if parameters <= MOST_PARAMETERS else ():
            for resizable in (True, False):
                reason = _takes(name, size, resizable)
                if not reason:
                    return Architecture("timm", family, name, size, int(resizable), parameters, "")
    return Architecture("timm", family, sizes[0][1], 0, 0, sizes[0][0], reason)


def _takes(name: str, size: int, resizable: bool) -> str:
    """Why an architecture of timm does not take images of a size, by shapes alone; empty if it does."""
    try:
        with torch.device("meta"), torch.no_grad():
            stock = timm_network(name, size, resizable, _EMBEDDED, _FEW)
            stock.call({"x": torch.empty(_FEW, 3, size, size)})
    except Exception as error:
        return words_of(error)
    return ""


def hugging_face_architecture(model_type: str) -> Architecture:
    """Apply the rule to a model type of transformers."""
    tried = Architecture("transformers", model_type, model_type, 0, 0, 0, "")
    if model_type in _TOO_MUCH_MEMORY:
        return tried._replace(reason=_TOO_MUCH_MEMORY[model_type])
    try:
        with quiet(), torch.device("meta"):
            parameters = _count(from_tiny_configuration(model_type)[0]())
        if parameters > MOST_PARAMETERS:
            return tried._replace(parameters=parameters, reason=f"{parameters / 1e6:.0f} million parameters")
        stock = hugging_face_network(model_type, _EMBEDDED, _FEW)
        with quiet(), torch.no_grad():
            output = stock.call(stock.arguments)
            if stock.loss is not None:
                stock.loss_of(output)
    except Exception as error:
        return tried._replace(reason=words_of(error))
    return tried._replace(parameters=_count(stock.model))


def _count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def words_of(error: Exception) -> str:
    """Name and beginning of an error, without the paths of this machine."""
    text = " ".join(_PATH.sub("a file", str(error)).split())
    return f"{type(error).__name__}: {text[:160]}"


def _parameters(name: str) -> int:
    timm = required("timm", "timm")
    with quiet(), torch.device("meta"):
        try:
            model = timm.create_model(name, pretrained=False)
        except Exception:
            return MOST_PARAMETERS + 1
    return _count(model)


def main() -> None:
    """Complete the list: families that it has are kept. Delete the file to make all of it again."""
    transformers = required("transformers", "transformers")
    known = {(one.package, one.family): one for one in listed()} if FILE.is_file() else {}
    found: list[Architecture] = []
    for package, families, rule in (
        ("timm", timm_families(), timm_architecture),
        ("transformers", transformers.CONFIG_MAPPING, hugging_face_architecture),
    ):
        found += [known.get((package, family)) or rule(family) for family in families]
    replace(FILE, table_of(found, Architecture))


if __name__ == "__main__":
    main()
