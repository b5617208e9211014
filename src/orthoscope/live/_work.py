"""Work beside the server: one diagnosis at a time, and theory layer by layer until a newer question is asked.

Threads are daemons: a network that takes minutes must not keep Ctrl-C from ending the program.
"""

import asyncio
import contextlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from orthoscope.diagnosis.expectations import Expected, expected_numbers
from orthoscope.diagnosis.forecast import Prospect, mlp_arguments
from orthoscope.diagnosis.inspection import mlp_hyperparameters
from orthoscope.diagnosis.targets import NamedNetwork
from orthoscope.findings import State
from orthoscope.live._events import Hub
from orthoscope.report.document import finite
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

    def to(self, depth: int, wanted: Callable[[], bool]) -> bool:
        """Go on while it is `wanted`, or to the end of theory; whether `depth` layers are there."""
        while wanted():
            with self.lock:
                if len(self.layers) >= depth or self.lost is not None:
                    break
                if self.source is None:
                    self.source = propagated_layers(self.network, self.inputs, _DEEPEST)
                try:
                    self.layers.append(next(self.source))
                except (ValueError, ArithmeticError) as reason:
                    self.lost = reason if isinstance(reason, ValueError) else ValueError(str(reason))
        return len(self.layers) >= depth

    def gradients(self, depth: int) -> list[float]:
        """Log-norms of the gradient in the network cut to `depth`."""
        return Propagation(self.network, self.inputs, tuple(self.layers[:depth]), None).log_gradients(depth)


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
            if not path.to(number, wanted) or not wanted():
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

    def reach(
        self, target: str, samples: int = 64, overlap: float = 0.0, wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, Any] | None:
        """Search for the deepest network like `target` that is healthy by theory, whatever its own depth.

        Depths are tried in steps of an eighth, and the last step by bisection, so few ranks are worked out.

        Args:
            target: As for `rows`.
            samples: Size of the batch.
            overlap: Mean cosine of the inputs.
            wanted: The search ends early when this is false.

        Returns:
            The depth `deepest` up to which networks are healthy (None if not even one layer is), the depth `searched`
            that was reached, and the `symptoms` of the next deeper network (none if every depth up to `searched` is
            healthy); None if the search ended early.
        """
        arguments, _ = mlp_arguments(target)
        path = self._path(arguments, samples, overlap)
        healthy, sick, symptoms = 0, _DEEPEST + 1, list[str]()
        while sick - healthy > 1:
            gallop = healthy + max(1, healthy // 8)
            depth = min(gallop, _DEEPEST) if sick > _DEEPEST else (healthy + sick) // 2
            path.to(depth, wanted)
            if not wanted():
                return None
            found = self._symptoms(path, depth, samples)
            if found:
                sick, symptoms = depth, found
            else:
                healthy = depth
        return {"deepest": healthy or None, "searched": min(sick, _DEEPEST), "symptoms": symptoms}

    @staticmethod
    def _symptoms(path: _Path, depth: int, samples: int) -> list[str]:
        """What the rules find in the network cut to that depth; its verdict depends on its last layer alone."""
        if len(path.layers) < depth:
            return [str(path.lost)]
        units = path.network.hidden.units
        numbers = _numbers(path.layers[depth - 1].output, samples, units)
        findings = Prospect([numbers] * depth, path.gradients(depth), min(samples, units)).findings()
        return list(dict.fromkeys(str(finding.symptom) for finding in findings if finding.state is State.FOUND))

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
        gradients = path.gradients(depth)
        findings = list(Prospect(shown, gradients, capacity).findings())
        return {
            "log_gradients": [finite(value) for value in gradients[:depth]],
            "verdict": str(max((finding.severity for finding in findings), key=lambda verdict: verdict.rank)),
            "reasons": [finding.reason for finding in findings if finding.state is State.FOUND],
        }


_numbers = lru_cache(maxsize=4096)(expected_numbers)

_PATIENCE = 20.0  # seconds that a curve may take
_EVERY = 0.03  # seconds between two parts of a curve
_EVERY_NEWS = 0.1  # seconds between two lines of progress


class Diagnoses:
    """Networks that are diagnosed on demand; the hub is told how far it is, and the document."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._busy = threading.Lock()

    def start(self, network: NamedNetwork, seed: int) -> bool:
        """Begin, unless another one is under way."""
        if not self._busy.acquire(blocking=False):
            return False
        threading.Thread(target=self._run, args=(network, seed), daemon=True).start()
        return True

    def _run(self, network: NamedNetwork, seed: int) -> None:
        done, told = 0, 0.0

        def progress(module: str, expected: int) -> None:
            nonlocal done, told
            done += 1
            if time.monotonic() - told > _EVERY_NEWS:
                told = time.monotonic()
                share = min(1.0, done / max(1, expected))
                self._hub.tell_from_thread("progress", {"share": share, "what": module or "the whole network"})

        kind: str
        content: dict[str, Any]
        try:
            kind, content = "document", network.diagnose(seed, progress=progress).document()
        except Exception as error:  # the user's network may raise anything, and the page should say so
            kind, content = "failure", {"error": str(error) or type(error).__name__}
        finally:
            self._busy.release()  # before anybody is told, who may ask for the next at once
        self._hub.tell_from_thread(kind, content)


class Curves:
    """Curves of theory under sliders: the newest question is answered, older ones are dropped."""

    def __init__(self) -> None:
        self._unfoldings = Unfoldings()
        self._newest = 0

    async def parts(self, target: str, samples: int, overlap: float) -> AsyncIterator[dict[str, Any]]:
        """Yield `{"rows": [...]}` as they come, then `{"end": ...}` and `{"reach": ...}`; or `{"error": sentence}`."""
        self._newest += 1
        mine, deadline = self._newest, time.monotonic() + _PATIENCE
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any] | None]()
        gone = threading.Event()

        def wanted() -> bool:
            return mine == self._newest and not gone.is_set() and time.monotonic() < deadline

        def put(part: dict[str, Any] | None) -> None:
            with contextlib.suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(queue.put_nowait, part)

        def work() -> None:
            rows: list[dict[str, Any]] = []
            ended = False
            told = time.monotonic()
            try:
                for row in self._unfoldings.rows(target, samples, overlap, wanted):
                    if "depth" in row:
                        rows.append(row)
                        if time.monotonic() - told > _EVERY:
                            put({"rows": rows})
                            rows, told = [], time.monotonic()
                    else:
                        put({"rows": rows})
                        rows = []
                        ended = "lost" not in row
                        put({"end": row} if ended else row)
                if ended and (reach := self._unfoldings.reach(target, samples, overlap, wanted)) is not None:
                    put({"reach": reach})
            except (ValueError, ArithmeticError) as error:
                put({"error": str(error)})
            if not ended and mine == self._newest and time.monotonic() > deadline:
                put({"error": f"theory took longer than {_PATIENCE:.0f} seconds here, and was stopped"})
            put(None)

        threading.Thread(target=work, daemon=True).start()
        try:
            while (part := await queue.get()) is not None:
                yield part
        finally:
            gone.set()
