"""What to change: prescriptions from a diagnosis, tried on copies, measured again, confirmed by a short training."""

from orthoscope.prescriptions.branches import scale_branches_
from orthoscope.prescriptions.fix import Fix, fix
from orthoscope.prescriptions.normalisation import insert_norms_
from orthoscope.prescriptions.plan import Plan, prescribe
from orthoscope.prescriptions.prescription import Effect, Prescription
from orthoscope.prescriptions.shaping import shape_activations_

__all__ = [
    "Effect",
    "Fix",
    "Plan",
    "Prescription",
    "fix",
    "insert_norms_",
    "prescribe",
    "scale_branches_",
    "shape_activations_",
]
