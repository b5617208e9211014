"""Advice that is not applied to a model: it concerns the training loop, or the source code of the network."""

from orthoscope.diagnosis import Diagnosis
from orthoscope.findings import Symptom
from orthoscope.prescriptions.prescription import Prescription
from orthoscope.prescriptions.remedies import has_attention

_DEEP = 20  # weight layers
_PARAMETRIZE = """for module in list(model.modules()):
    if isinstance(module, torch.nn.Linear) and module.in_features == module.out_features:
        orthoscope.layers.orthogonal(module)"""


def advice_for(diagnosis: Diagnosis) -> tuple[Prescription, ...]:
    """What may help besides: each only where its cause was found."""
    found = (
        _smaller_rate(diagnosis),
        _clipped(diagnosis),
        _skips(diagnosis),
        *_functions(diagnosis),
        _softmax(diagnosis),
        _orthogonal(diagnosis),
    )
    return tuple(one for one in found if one is not None)


def _depth(diagnosis: Diagnosis) -> int:
    return max(1, sum(layer.depth is not None for layer in diagnosis.layers))


def _smaller_rate(diagnosis: Diagnosis) -> Prescription | None:
    """For deep plain networks, whose updates add up."""
    depth = _depth(diagnosis)
    if depth < _DEEP or diagnosis.anatomy.norms or has_attention(diagnosis):
        return None
    return Prescription(
        "smaller learning rate",
        f"the updates of {depth} weight layers add up at the output: divide the learning rate of a shallow network "
        "by their number, and use warm-up",
        advice=f"learning_rate = learning_rate / {depth}",
    )


def _clipped(diagnosis: Diagnosis) -> Prescription | None:
    if Symptom.EXPLODE not in diagnosis.symptoms:
        return None
    return Prescription(
        "clipped gradients",
        "gradients explode in some layers: clipping each by the size of its weight keeps the others moving",
        advice="orthoscope.optim.clip_adaptively_(model)  # after backward, before the step",
    )


def _skips(diagnosis: Diagnosis) -> Prescription | None:
    if diagnosis.anatomy.may_branch or _depth(diagnosis) < _DEEP:
        return None
    return Prescription(
        "skip connections",
        "a residual network preserves samples and gradients at any depth",
        advice="h = h + block(h) / depth**0.5  # in forward, for blocks that keep the shape",
    )


def _functions(diagnosis: Diagnosis) -> list[Prescription]:
    """Where an activation is a function in forward, the line to change, one advice for all of them."""
    calls = diagnosis.anatomy.functions
    if not calls:
        return []
    return [
        Prescription(
            "activations as modules",
            "activations that are functions inside forward cannot be replaced: as modules they can be blended toward "
            "the identity by the next fix",
            advice="\n".join(call.advice for call in calls),
        )
    ]


def _softmax(diagnosis: Diagnosis) -> Prescription | None:
    call = diagnosis.anatomy.returned_softmax
    if call is None:
        return None
    return Prescription(
        "no softmax before the loss",
        "cross entropy applies a softmax itself: after a second one probabilities differ too little to learn",
        advice=f"{call.code}  # {call.place}: return its argument",
    )


def _orthogonal(diagnosis: Diagnosis) -> Prescription | None:
    square = sum(out == fan_in for out, fan_in in diagnosis.anatomy.linear.values())
    if square < 2 or has_attention(diagnosis):
        return None
    return Prescription(
        "orthogonal weights while training",
        "square layers stay orthogonal at every step, not only at the first",
        advice=_PARAMETRIZE,
    )
