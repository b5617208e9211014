"""Remedies for single layers that are named as a cause: dead, of rank one, shifted, frozen, or off scale."""

import math

from orthoscope.diagnosis import Diagnosis
from orthoscope.prescriptions.prescription import Change, Prescription
from orthoscope.prescriptions.remedies import HERE, SEED, gates
from orthoscope.prescriptions.repairs import (
    normalize_input_,
    redraw_,
    remove_softmax_,
    scale_attention_,
    unfreeze_,
    zero_biases_,
)
from orthoscope.probe import Layer, Status

_SHARP = 3.0  # root mean square of queries or keys: logits beyond this squared make attention pick one token
_OFF = 10.0  # root mean square of the input, or its inverse
_SHIFTED = 0.9  # share of the energy of the input that is its mean
_NAMES = 3  # that a reason lists
_DEAD = ("live layers", "live branches")  # checks that find dead outputs


def reset_biases(diagnosis: Diagnosis) -> Prescription | None:
    """Biases far below zero switch the units behind them off."""
    shifted = diagnosis.anatomy.faults.shifted
    if not shifted:
        return None
    return Prescription(
        "biases reset to zero",
        f"the biases of {_listed(shifted)} are so far below zero that most units behind them are off for every sample",
        (Change(zero_biases_, f"{HERE}.zero_biases_", (shifted,)),),
        named=True,
    )


def new_layers(diagnosis: Diagnosis) -> Prescription | None:
    """Layers without directions, and dead ones, are drawn anew; zero-initialized branches open by themselves."""
    faults = diagnosis.anatomy.faults
    lost = {*faults.low_rank, *faults.zero, *_dead(diagnosis)} - {*gates(diagnosis), *faults.shifted}
    names = tuple(name for name in diagnosis.anatomy.weights if name in lost)
    if not names:
        return None
    return Prescription(
        "new weights for layers that lose the signal",
        f"the weights of {_listed(names)} are zero, have a single direction or leave every unit off: drawn as torch "
        "draws those of a new layer",
        (Change(redraw_, f"{HERE}.redraw_", (names,), seed=SEED),),
        named=True,
    )


def open_gates(diagnosis: Diagnosis) -> Prescription | None:
    """Frozen zeros never open."""
    faults = diagnosis.anatomy.faults
    if faults.all_frozen:
        return Prescription(
            "parameters unfrozen",
            "no parameter requires a gradient: nothing can be trained",
            (Change(unfreeze_, f"{HERE}.unfreeze_"),),
            named=True,
        )
    if not faults.frozen_zero:
        return None
    return Prescription(
        "zero gates unfrozen",
        f"{_listed(faults.frozen_zero)} zero and frozen: what they multiply is never used",
        (Change(unfreeze_, f"{HERE}.unfreeze_", (faults.frozen_zero,)),),
        named=True,
    )


def scaled_attention(diagnosis: Diagnosis) -> Prescription | None:
    """Queries and keys of unit scale, where they are so large that attention picks a single token."""
    faults = diagnosis.anatomy.faults
    large = any(layer.rms > _SHARP for layer in _rows(diagnosis) if layer.name in faults.queries)
    if not large and not faults.attention:
        return None
    return Prescription(
        "attention logits of unit scale",
        "the softmax of large logits picks one token and passes no gradient: queries and keys are scaled to unit size",
        (Change(scale_attention_, f"{HERE}.scale_attention_", (faults.queries,), batch=True),),
        named=True,
    )


def without_softmax(diagnosis: Diagnosis) -> Prescription | None:
    """Cross entropy has a softmax of its own."""
    last = diagnosis.layers[-1] if diagnosis.layers else None
    if last is None or not last.name or last.kind not in ("Softmax", "Softmax2d"):
        return None
    return Prescription(
        "no softmax before the loss",
        "cross entropy applies a softmax itself: after a second one probabilities differ too little to learn",
        (Change(remove_softmax_, f"{HERE}.remove_softmax_", (last.name,)),),
        architecture=True,
        named=True,
    )


def standardized_input(diagnosis: Diagnosis) -> Prescription | None:
    """Input of mean 0 and variance 1."""
    given = diagnosis.recording.input
    if not given.kind.startswith(("float", "bfloat")) or not math.isfinite(given.rms) or given.rms == 0:
        return None
    if 1 / _OFF < given.rms < _OFF and not given.mean_energy > _SHIFTED:
        return None
    return Prescription(
        "normalized input",
        f"the input has root mean square {given.rms:.3g} and {given.mean_energy:.0%} of its energy in the mean: each "
        "feature is normalized with the statistics of the batch; better, normalize the data",
        (Change(normalize_input_, f"{HERE}.normalize_input_", batch=True),),
        architecture=True,
        named=True,
    )


def _dead(diagnosis: Diagnosis) -> set[str]:
    """The layers that findings name as the cause of dead outputs."""
    return {one.cause for one in diagnosis.findings if one.check in _DEAD and one.cause is not None}


def _rows(diagnosis: Diagnosis) -> list[Layer]:
    return [layer for layer in diagnosis.layers if layer.status is Status.MEASURED]


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NAMES])
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"{shown}{more}"
