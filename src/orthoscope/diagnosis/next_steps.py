"""What to do after a diagnosis: the sentences with which the terminal and the page end."""

from typing import TYPE_CHECKING

from orthoscope.diagnosis.rules import is_omission
from orthoscope.findings import State, Symptom, Verdict

if TYPE_CHECKING:
    from orthoscope.diagnosis.diagnosis import Diagnosis

_FIX = "Apply the best change to a copy of the network, and confirm it by a short training"
_LIST = "List every change that may help, with what theory predicts of each"
_WATCH = "Learning rate, data and what happens later are not checked; follow the training with:"
_BATCH = "Give a batch whose samples differ: no change to the network helps against a degenerate input."
_FEW = "Give a batch of at least 8 samples: with fewer, rank collapse is not checked and no change can be tried."
_FEWEST_SAMPLES = 8  # that `orthoscope.fix` takes
_NOT_FINITE = "Look for nan, or for numbers that overflow, in the weights and the input of {layer}."
_TOO_LITTLE = "Too little could be checked: diagnose again with at least 8 samples that the network tells apart."


def next_steps(diagnosis: "Diagnosis") -> tuple[str, ...]:
    """Return what to do now, one sentence each; a command or call stands between backquotes at the end.

    A network that is sick or at risk is to be changed; of a healthy one, what was not checked is said.
    """
    if not diagnosis.judged:
        return (_TOO_LITTLE,)
    if diagnosis.verdict is Verdict.HEALTHY:
        return (*_unchecked(diagnosis), f"{_WATCH} `orthoscope.watch(model)`")
    if set(diagnosis.symptoms) <= {Symptom.DEGENERATE_INPUT}:
        return (_BATCH,)
    first = (_BATCH,) if Symptom.DEGENERATE_INPUT in diagnosis.symptoms else ()
    first += tuple(
        _NOT_FINITE.format(layer=finding.layer or "the network")
        for finding in diagnosis.findings
        if finding.check == "finite outputs" and finding.state is State.FOUND
    )
    if diagnosis.recording.samples < _FEWEST_SAMPLES:
        return (*first, _FEW)
    if diagnosis.anatomy.trained:
        trained = f"The weights look trained ({diagnosis.anatomy.trained}), so only advice is given"
        return (*first, f"{trained}: `orthoscope.prescribe(diagnosis)`")
    if diagnosis.fix_command:
        return (*first, f"{_FIX}: `{diagnosis.fix_command}`")
    return (*first, f"{_FIX}: `orthoscope.fix(model, batch)`", f"{_LIST}: `orthoscope.prescribe(diagnosis)`")


def _unchecked(diagnosis: "Diagnosis") -> tuple[str, ...]:
    missing = [f"{finding.check} ({finding.reason})" for finding in diagnosis.findings if is_omission(finding)]
    return (f"Not checked on this batch: {'; '.join(missing)}.",) if missing else ()
