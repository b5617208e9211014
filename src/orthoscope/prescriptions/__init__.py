"""Remedies for a sick network: prescribed from a diagnosis, tried on copies, measured again, confirmed by training."""

from orthoscope.prescriptions.comparison import Comparison, compare
from orthoscope.prescriptions.confirmation import Confirmation, confirm
from orthoscope.prescriptions.edits import insert_norms_, scale_branches_
from orthoscope.prescriptions.gains import Shaping, choose_gains, measured_rates, predicted_rates, simulated_rates
from orthoscope.prescriptions.plan import Plan, prescribe
from orthoscope.prescriptions.prescription import Effect, Prescription
from orthoscope.prescriptions.trials import Fix, fix
from orthoscope.report.document import FixOutcome

__all__ = [
    "Comparison",
    "Confirmation",
    "Effect",
    "Fix",
    "FixOutcome",
    "Plan",
    "Prescription",
    "Shaping",
    "choose_gains",
    "compare",
    "confirm",
    "fix",
    "insert_norms_",
    "measured_rates",
    "predicted_rates",
    "prescribe",
    "scale_branches_",
    "simulated_rates",
]  # fmt: skip
