"""A forecast that is told layer by layer, as soon as each is known: what moves under a slider."""

import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from orthoscope.diagnosis.document import finite
from orthoscope.diagnosis.expectations import Expected, expected_numbers
from orthoscope.diagnosis.forecast import mlp_arguments
from orthoscope.diagnosis.forecast_rules import Prospect
from orthoscope.diagnosis.hyperparameters import mlp_hyperparameters
from orthoscope.findings import State
from orthoscope.theory import (
    Hyperparameters,
    Inputs,
    NoTheory,
    Propagation,
    gaussian_inputs,
    propagated_layers,
)

_DEEPEST = 300  # layers: beyond, a slider would not follow the hand
_POINTS = 40  # depths at which ranks and gaps are worked out: they cost as much as the layers themselves
_KEPT = 32  # networks whose layers are remembered


@dataclass
class _Path:
    """The layers of one network, as far as anybody asked, and the end if there is one."""

    network: Hyperparameters
    inputs: Inputs
    layers: list[Any] = field(default_factory=list)
    source: Iterator[Any] | None = None
    lost: NoTheory | ValueError | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def to(self, depth: int) -> bool:
        """Go on by at most one layer; whether `depth` layers are there."""
        with self.lock:
            if len(self.layers) >= depth or self.lost is not None:
                return len(self.layers) >= depth
            if self.source is None:
                self.source = propagated_layers(self.network, self.inputs, _DEEPEST)
            try:
                self.layers.append(next(self.source))
            except (ValueError, ArithmeticError) as reason:
                self.lost = reason if isinstance(reason, ValueError) else ValueError(str(reason))
            return len(self.layers) >= depth


class Unfoldings:
    """Forecasts of networks that differ by a little, again and again: layers once worked out are kept."""

    def __init__(self) -> None:
        self._paths: OrderedDict[tuple[Any, ...], _Path] = OrderedDict()
        self._lock = threading.Lock()

    def rows(
        self, target: str, samples: int = 64, overlap: float = 0.0, wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[dict[str, Any]]:
        """One row a depth, as in a prediction, then the end: gradients at all layers and what the rules make of it.

        Stops without an end when it is no longer `wanted`.
        """
        arguments, depths = mlp_arguments(target)
        depth = depths[-1]
        if depth > _DEEPEST:
            raise ValueError(f"depth is {depth}: curves that move have at most {_DEEPEST} layers, a prediction more")
        path = self._path(arguments, samples, overlap)
        units, every = path.network.hidden.units, math.ceil(depth / _POINTS)
        shown: list[Expected] = []
        for number in range(1, depth + 1):
            while wanted() and not path.to(number) and path.lost is None:
                pass
            if len(path.layers) < number or not wanted():
                break
            if number % every and number not in (1, depth):
                shown.append(shown[-1])  # the rules count layers, and see those between as they see the one before
                continue
            shown.append(_numbers(path.layers[number - 1].output, samples, units))
            yield {"depth": number, **{name: finite(value) for name, value in vars(shown[-1]).items()}}
        if path.lost is not None and len(path.layers) < depth:
            yield {"lost": str(path.lost), "layers": len(path.layers)}
        if wanted() and shown:
            yield self._end(path, shown, min(depth, len(path.layers)), min(samples, units))

    def _path(self, arguments: dict[str, Any], samples: int, overlap: float) -> _Path:
        network = mlp_hyperparameters(arguments)
        features = arguments["width"] if arguments["in_features"] is None else arguments["in_features"]
        key = (*sorted((k, str(v)) for k, v in arguments.items() if k != "depth"), samples, overlap)
        with self._lock:
            path = self._paths.pop(key, None) or _Path(network, gaussian_inputs(samples, features, overlap))
            self._paths[key] = path
            while len(self._paths) > _KEPT:
                self._paths.popitem(last=False)
        return path

    @staticmethod
    def _end(path: _Path, shown: list[Expected], depth: int, capacity: int) -> dict[str, Any]:
        found = Propagation(path.network, path.inputs, tuple(path.layers[:depth]), None)
        gradients = found.log_gradients(depth)
        findings = list(Prospect(shown, gradients, capacity).findings())
        return {
            "log_gradients": [finite(value) for value in itertools.islice(gradients, depth)],
            "verdict": str(max((finding.severity for finding in findings), key=lambda verdict: verdict.rank)),
            "reasons": [finding.reason for finding in findings if finding.state is State.FOUND],
        }


@lru_cache(maxsize=4096)
def _numbers(signal: Any, samples: int, units: int) -> Expected:
    return expected_numbers(signal, samples, units)
