"""What to change: prescriptions from a diagnosis, tried on copies, measured again, confirmed by a short training."""

from orthoscope.prescriptions.branches import scale_branches_
from orthoscope.prescriptions.comparison import Comparison, compare
from orthoscope.prescriptions.confirmation import Confirmation, confirm
from orthoscope.prescriptions.fixed import Fix, Outcome
from orthoscope.prescriptions.fixing import fix
from orthoscope.prescriptions.normalisation import insert_norms_
from orthoscope.prescriptions.plan import Plan, prescribe
from orthoscope.prescriptions.prescription import Effect, Prescription
from orthoscope.prescriptions.softening import soften_activations_

__all__ = [
    "Comparison",
    "Confirmation",
    "Effect",
    "Fix",
    "Outcome",
    "Plan",
    "Prescription",
    "compare",
    "confirm",
    "fix",
    "insert_norms_",
    "prescribe",
    "scale_branches_",
    "soften_activations_",
]
