"""The body of `orthoscope fix`: build, fix by a short training, write weights, code, page and JSON."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_model
from torch import nn

from orthoscope.cli.app import show, write, write_text
from orthoscope.files import replacing
from orthoscope.models import TargetError, resolve, resolve_batch
from orthoscope.prescriptions.confirmation import Progress, Recipe, Trial
from orthoscope.prescriptions.fixes import Fix
from orthoscope.prescriptions.prescription import snippet
from orthoscope.prescriptions.trials import fix
from orthoscope.report.document import FixOutcome

DONE, NOT_MENDED = 0, 1


def fix_target(
    text: str,
    batch: str | None,
    samples: int,
    seed: int,
    steps: int | None,
    trained: bool | None,
    reinitialize: bool,
    weights: Path | None,
    details: bool,
    progress: Progress,
    note: Callable[[str], None],
) -> Fix:
    """Fix what the text names; `steps` of training decide, if not None; `details` are what only a page shows."""
    generator = torch.Generator().manual_seed(seed)
    target = resolve(text)
    source = target.batch if batch is None else resolve_batch(batch)
    model = target.build(generator)
    example = source(samples, generator)

    def part(begin: float, length: float) -> Progress:
        return lambda share, what: progress(begin + length * share, what)

    trial = _trial(model, example, steps, seed, part(0.0, 0.1), note)
    try:
        found = fix(
            model,
            example,
            trained=trained,
            reinitialize=reinitialize,
            max_samples=max(64, samples),
            seed=seed,
            name=text,
            confirm=trial or False,
            progress=part(0.1, 0.9),
        )
    except ValueError:
        raise  # it says what to do
    except Exception as error:  # the user's network may raise anything
        lines = str(error).strip().splitlines()
        raise TargetError(
            f"{text!r} fails on its batch with {type(error).__name__}: {lines[0] if lines else 'no message'}; "
            "give another batch with --batch, or add --traceback to see the line that fails"
        ) from error
    if details:
        found.before.compute_details()  # the model is freed on return
        found.after.compute_details()
    return replace(found, code=_code(found, text, batch, samples, seed, weights))


def _trial(
    model: nn.Module, example: Any, steps: int | None, seed: int, progress: Progress, note: Callable[[str], None]
) -> Trial | None:
    """What candidates are trained on; None without `steps`, or if nothing fits, which is said."""
    if steps is None:
        return None
    recipe = Recipe.checked(steps, None, "adamw", seed)
    try:
        return Trial.of(model, None, None, recipe, batch=example, progress=progress)
    except (ValueError, RuntimeError) as reason:
        note(f"not confirmed by a training: {reason}")
        return None


def conclude(found: Fix, weights: Path | None, code: Path | None, html: Path | None, json: str | None) -> int:
    """Show a fix and write it where it was asked for, the page whatever came of it; gives the exit code."""
    document = found.as_document(details=html is not None or json is not None)
    show([document], to_stderr=json == "-")
    if found.steps:
        for path in filter(None, (weights, code)):
            path.parent.mkdir(parents=True, exist_ok=True)
        if weights is not None:
            write_weights(weights, found.model)
            print(f"wrote {weights}", file=sys.stderr)
        write_text(found.snippet, code)
    elif any((weights, code, json not in (None, "-"))):
        print("nothing was changed: no weights, code or JSON are written", file=sys.stderr)
    write([document], html, json if found.steps or json == "-" else None)
    trains = found.confirmations is not None and found.confirmations[0].trains
    failed = found.outcome in (FixOutcome.NOTHING_HELPED, FixOutcome.REFUTED, FixOutcome.TRAINED)
    return NOT_MENDED if failed and not trains else DONE


def _code(found: Fix, text: str, batch: str | None, samples: int, seed: int, weights: Path | None) -> str:
    """The snippet with the network as the user names it: their own function, or the target resolved."""
    own = re.fullmatch(r"([\w.]+):(\w+)", text)
    zoo = own is not None and own[1] in ("timm", "hf")
    if own is not None and not zoo:
        build = f"from {own[1]} import {own[2]}\n\nmodel = {own[2]}()"
        source = f"orthoscope.models.resolve({text!r}).batch({samples})"
    else:
        build = (
            f"target = orthoscope.models.resolve({text!r})\n"
            f"generator = torch.Generator().manual_seed({seed})\n"
            "model = target.build(generator)"
        )
        source = f"target.batch({samples}, generator)"
    if batch is not None:
        source = f"orthoscope.models.resolve_batch({batch!r})({samples})"
    # The whole path: the snippet may be run from anywhere.
    return snippet(found.steps, build, f"batch = {source}", None if weights is None else str(weights.resolve()))


def write_weights(path: Path, model: nn.Module) -> None:
    """Parameters and buffers, whole or not at all; tensors that are shared are written once."""
    with replacing(path) as temporary:
        permissions = temporary.stat().st_mode  # safetensors replaces the file by one for its owner only
        save_model(model, str(temporary))
        temporary.chmod(permissions)
