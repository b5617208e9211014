"""A target: a network by name that can be built, and a batch that fits it.

`parse_call` reads `name(depth=50, activation=relu)` without evaluating it; `refuse_if_too_large` checks the memory that
a network needs before any of it is allocated.
"""

import ast
import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor, nn

Batch: TypeAlias = Tensor | tuple[Any, ...] | dict[str, Any]


class TargetError(ValueError):
    """A mistake of the user; the message says what was given, what is accepted and what to do, in one sentence."""


@runtime_checkable
class BatchSource(Protocol):
    """Makes a batch of that many samples; user code may ignore `samples`."""

    def __call__(self, samples: int = ..., generator: torch.Generator | None = ...) -> Batch:
        """Make a batch."""


@dataclass(frozen=True)
class Target:
    """A network by its name.

    Attributes:
        name: The text that the user gave.
        build: Makes the network, drawing from the generator, or from torch's global one if it is None.
        batch: Makes a batch; raises a TargetError if none can be guessed.
    """

    name: str
    build: Callable[[torch.Generator | None], nn.Module]
    batch: BatchSource


def batches(draw: Callable[..., Tensor], *sizes: int) -> BatchSource:
    """Batches `draw(samples, *sizes)` of a function of `orthoscope.data`."""

    def batch(samples: int = 64, generator: torch.Generator | None = None) -> Batch:
        return draw(samples, *sizes, generator=generator)

    return batch


@contextmanager
def drawn_from(generator: torch.Generator | None) -> Iterator[None]:
    """Seed torch's global generators from this one inside the context, and restore them afterwards.

    None leaves the global generators as they are.
    """
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    accelerator = torch.accelerator.current_accelerator()
    devices = range(torch.accelerator.device_count())
    with torch.random.fork_rng(devices, device_type=accelerator.type if accelerator else "cuda"):
        torch.manual_seed(seed)
        yield


_RANGE = re.compile(r"(?<![\w.])(\d+\.\.\d+)(?![\w.])")


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """Name and keyword arguments; values are Python literals, bare words (dashes allowed) and `1..500` are strings."""
    name, bracket, rest = text.strip().partition("(")
    if not bracket:
        return name, {}
    if not rest.endswith(")"):
        raise TargetError(f"{text!r} has no closing bracket: write {name}(argument=value, ...)")
    try:
        call = ast.parse("call(" + _RANGE.sub(r"'\1'", rest), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise TargetError(f"{text!r} cannot be read: write {name}(argument=value, ...)") from error
    if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
        raise TargetError(f"{text!r} has an argument without a name: write {name}(argument=value, ...)")
    names = [keyword.arg for keyword in call.keywords]
    repeated = next((argument for argument in names if names.count(argument) > 1), None)
    if repeated is not None:
        raise TargetError(f"{text!r} has the argument {repeated!r} more than once")
    return name.strip(), {str(keyword.arg): _value(keyword.value, text) for keyword in call.keywords}


def _value(node: ast.expr, text: str) -> Any:
    if (word := _bare_word(node)) is not None:
        return word
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        given = ast.unparse(node)
        raise TargetError(
            f"{given!r} in {text!r} is an expression, which is not evaluated: give a number or a word"
        ) from error


def _bare_word(node: ast.expr) -> str | None:
    """`relu`, a name in Python's grammar, or `batch-uncentered`, a difference of names, as a string; else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        left, right = _bare_word(node.left), _bare_word(node.right)
        return None if left is None or right is None else f"{left}-{right}"
    return None


# Float32 weights and their gradients; activations come on top.
_BYTES_PER_PARAMETER = 8


def refuse_if_too_large(text: str, make: Callable[[], nn.Module], remedy: str) -> None:
    """A TargetError if weights and gradients of the network that `make` builds exceed the available memory.

    Parameters are counted on the meta device. A constructor that reads values fails there; then nothing is refused.
    """
    available = available_memory()
    if available is None:
        return
    try:
        with drawn_from(torch.Generator()), torch.device("meta"):
            parameters = sum(parameter.numel() for parameter in make().parameters())
    except Exception:
        return
    needed = _BYTES_PER_PARAMETER * parameters
    if needed > available:
        raise TargetError(
            f"{text!r} has {parameters / 1e9:.1f} billion parameters, whose weights and gradients need "
            f"{needed / 2**30:.0f} GiB of the {available / 2**30:.0f} GiB available: {remedy}"
        )


def builder(text: str, make: Callable[[], nn.Module], remedy: str) -> Callable[[torch.Generator | None], nn.Module]:
    """`Target.build` of a network that `make` draws from torch's global generators."""

    def build(generator: torch.Generator | None) -> nn.Module:
        refuse_if_too_large(text, make, remedy)
        with drawn_from(generator):
            return make()

    return build


def close_to(name: str, known: Iterable[str], otherwise: str) -> str:
    """A question with the known names that are spelled alike, or else the advice."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    return f"did you mean {', '.join(close)}?" if close else otherwise


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping, also inside a container; None if the system does not say."""
    meminfo, *group = map(Path, ("/proc/meminfo", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"))
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    limits = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    limit, used = (path.read_text().strip() if path.exists() else "max" for path in group)
    if "max" not in (limit, used):
        limits.append(int(limit) - int(used))
    names = getattr(os, "sysconf_names", {})
    if not limits and "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)
