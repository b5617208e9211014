"""Remedies for a sick network: prescribed from a diagnosis, tried on copies, measured again, confirmed by training."""

from orthoscope.prescriptions.comparison import Comparison, compare
from orthoscope.prescriptions.confirmation import Confirmation, confirm
from orthoscope.prescriptions.edits import insert_batch_norms_, insert_norms_, scale_branches_
from orthoscope.prescriptions.fixes import Fix
from orthoscope.prescriptions.gains import Shaping, choose_gains, measured_rates, predicted_rates, simulated_rates
from orthoscope.prescriptions.plan import Plan, prescribe
from orthoscope.prescriptions.prescription import Effect, Prescription
from orthoscope.prescriptions.repairs import (
    Normalize,
    normalize_input_,
    redraw_,
    remove_softmax_,
    scale_attention_,
    unfreeze_,
    zero_biases_,
)
from orthoscope.prescriptions.trials import fix
from orthoscope.report.document import FixOutcome

__all__ = [
    "Comparison",
    "Confirmation",
    "Effect",
    "Fix",
    "FixOutcome",
    "Normalize",
    "Plan",
    "Prescription",
    "Shaping",
    "choose_gains",
    "compare",
    "confirm",
    "fix",
    "insert_batch_norms_",
    "insert_norms_",
    "measured_rates",
    "normalize_input_",
    "predicted_rates",
    "prescribe",
    "redraw_",
    "remove_softmax_",
    "scale_attention_",
    "scale_branches_",
    "simulated_rates",
    "unfreeze_",
    "zero_biases_",
]  # fmt: skip
