"""Remedies for a whole network: its weights, branches, activations and normalizations.

A remedy gives a prescription, or None where its cause or its object is missing.
"""

from collections import Counter

from torch import nn

from orthoscope.activations import blend_activations_, toward_identity
from orthoscope.activations.functions import MODULES
from orthoscope.diagnosis import Diagnosis
from orthoscope.findings import Symptom
from orthoscope.init import initialize_, iterative_, lsuv_
from orthoscope.prescriptions._blending import blending_strength, critical_gain, kernel_of, rounded
from orthoscope.prescriptions.edits import insert_batch_norms_, insert_norms_, scale_branches_
from orthoscope.prescriptions.prescription import Change, Prescription, foreseen
from orthoscope.probe import Status

SEED = 0
HERE = "orthoscope.prescriptions"
_LARGE, _SMALL = 10.0, 0.1  # root mean square of what a layer returns


def orthogonal_weights(diagnosis: Diagnosis) -> Prescription | None:
    """Orthogonal weights at the critical gain of the activation; attention has no such gain."""
    if not diagnosis.anatomy.weights or has_attention(diagnosis):
        return None
    main = main_activation(diagnosis)
    gain = 1.0 if main is None else critical_gain(main)
    of = "without an activation" if main is None else f"of {main!r}"
    return Prescription(
        "orthogonal weights",
        f"linear layers then preserve lengths and angles; {gain:g} is the critical gain {of}",
        (_initialize(diagnosis, _orthogonal_scheme(diagnosis), gain),),
        foresee=foreseen(diagnosis, init="orthogonal", weight_gain=gain, bias_std=0.0),
    )


def xavier_weights(diagnosis: Diagnosis) -> Prescription | None:
    """Weights of moderate size, where branches or attention add up."""
    if not diagnosis.anatomy.weights or not (diagnosis.anatomy.may_branch or has_attention(diagnosis)):
        return None
    return Prescription(
        "Xavier weights",
        "weights of variance 2/(fan in + fan out) keep signals and gradients near constant size",
        (_initialize(diagnosis, "xavier", 1.0),),
        foresee=foreseen(diagnosis, init="xavier", weight_gain=1.0, bias_std=0.0),
    )


def weaker_branches(diagnosis: Diagnosis) -> Prescription | None:
    """Residual branches divided by the root of their number, where samples collapse or gradients explode."""
    if not diagnosis.anatomy.may_branch or not {Symptom.COLLAPSE, Symptom.EXPLODE} & set(diagnosis.symptoms):
        return None
    return Prescription(
        "weaker residual branches",
        "the sum of n residual branches grows with depth: divided by √n it stays the size of one branch",
        (Change(scale_branches_, f"{HERE}.scale_branches_", batch=True),),
        foresee=foreseen(diagnosis, **_scaled(diagnosis)),
    )


def weaker_branches_anew(diagnosis: Diagnosis) -> Prescription | None:
    """The same after Xavier initialization."""
    branches, weights = weaker_branches(diagnosis), xavier_weights(diagnosis)
    if branches is None or weights is None:
        return None
    return Prescription(
        "Xavier weights and weaker residual branches",
        f"{weights.why}; {branches.why}",
        (*weights.changes, *branches.changes),
        foresee=foreseen(diagnosis, init="xavier", weight_gain=1.0, bias_std=0.0, **_scaled(diagnosis)),
    )


def unit_variance(diagnosis: Diagnosis) -> Prescription | None:
    """LSUV: against signals that vanish or explode; it does not detect rank collapse."""
    if not diagnosis.anatomy.weights or diagnosis.anatomy.norms:
        return None
    return Prescription(
        "unit variance layer by layer (LSUV)",
        "orthogonal weights, each layer scaled until its output on the batch has variance 1",
        (Change(lsuv_, "orthoscope.init.lsuv_", (), _keeping(diagnosis), batch=True, seed=SEED),),
    )


def rescaled_weights(diagnosis: Diagnosis) -> Prescription | None:
    """The weights that the network has, scaled layer by layer: also with normalization and attention."""
    if not diagnosis.anatomy.weights or not _is_off_scale(diagnosis):
        return None
    return Prescription(
        "weights scaled layer by layer",
        "some layers return numbers far from unit scale: each weight is scaled until its output on the batch has "
        "variance 1",
        (Change(lsuv_, "orthoscope.init.lsuv_", (), (("start", None), *_keeping(diagnosis)), batch=True),),
    )


def iterative_orthogonalization(diagnosis: Diagnosis) -> Prescription | None:
    """Data-dependent weights against rank collapse; needs hidden layers, and no normalization that would undo it."""
    if len(diagnosis.anatomy.weights) < 3 or diagnosis.anatomy.norms or Symptom.COLLAPSE not in diagnosis.symptoms:
        return None
    samples, needed = diagnosis.recording.samples, _samples_needed(diagnosis)
    # With more samples than units deep networks learn more slowly; a feature map has many patches per sample.
    options = (("samples", needed),) if needed and not diagnosis.anatomy.convolutions else ()
    lacking = f"at least {needed} samples, and the batch has {samples}" if samples < needed else ""
    return Prescription(
        "iterative orthogonalization",
        "every hidden layer evens out the directions of the batch that reaches it",
        (Change(iterative_, "orthoscope.init.iterative_", options=options, batch=True, seed=SEED),),
        needs=lacking,
        outcome=f"needs {lacking}" if lacking else "not tried",
    )


def blended_activations(diagnosis: Diagnosis) -> Prescription | None:
    """Activations blended toward the identity as far as the depth needs, and orthogonal weights at their gain."""
    anatomy = diagnosis.anatomy
    main = main_activation(diagnosis)
    if main is None or repr(main) not in anatomy.kinds or not anatomy.weights or has_attention(diagnosis):
        return None
    depth = _activation_calls(diagnosis)
    strengths = {text: blending_strength(module, depth) for text, module in anatomy.kinds.items()}
    blended = toward_identity(main, strengths[repr(main)])
    gain = rounded(1 / kernel_of(blended).scale)
    return Prescription(
        "activations blended toward the identity, orthogonal weights",
        f"every activation raises the cosine of two samples or the gradient a little, and there are {depth}: each is "
        f"blended toward the identity until the total is small ({blended!r})".replace("\n", " "),
        (
            Change(blend_activations_, "orthoscope.activations.blend_activations_", (strengths,)),
            _initialize(diagnosis, _orthogonal_scheme(diagnosis), gain),
        ),
        architecture=True,
        foresee=foreseen(diagnosis, activation=blended, gain=1.0, init="orthogonal", weight_gain=gain, bias_std=0.0),
    )


def normalized_inputs(diagnosis: Diagnosis) -> Prescription | None:
    """Layer normalization before every hidden layer that has none."""
    anatomy = diagnosis.anatomy
    if len(anatomy.weights) < 3:
        return None
    weights = orthogonal_weights(diagnosis) or xavier_weights(diagnosis)
    return Prescription(
        "normalization before hidden layers",
        "activations keep unit scale whatever the weights, and their mean over units is subtracted",
        (Change(insert_norms_, f"{HERE}.insert_norms_", batch=True), *_after_insertion(diagnosis, weights)),
        architecture=True,
    )


def _after_insertion(diagnosis: Diagnosis, weights: Prescription | None) -> tuple[Change, ...]:
    """New weights behind the normalizations; none where gates would have to be named as they are called then."""
    return () if weights is None or gates(diagnosis) else weights.changes


def batch_normalization(diagnosis: Diagnosis) -> Prescription | None:
    """Batch normalization behind the convolutions of a network without any."""
    if not diagnosis.anatomy.convolutions or diagnosis.anatomy.norms or len(diagnosis.anatomy.weights) < 3:
        return None
    return Prescription(
        "batch normalization behind convolutions",
        "every channel keeps zero mean and unit variance over the batch, whatever the weights",
        (Change(insert_batch_norms_, f"{HERE}.insert_batch_norms_", batch=True),),
        architecture=True,
    )


def gates(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Zero-initialized layers that are zero by design and stay so: ends of residual branches, and the last layer.

    In a network without branches a zero weight in the middle is a fault.
    """
    anatomy = diagnosis.anatomy
    called = [layer.name for layer in diagnosis.layers if layer.depth is not None]
    return tuple(name for name in anatomy.faults.zero if anatomy.may_branch or called[-1:] == [name])


def _initialize(diagnosis: Diagnosis, scheme: str, gain: float) -> Change:
    return Change(initialize_, "orthoscope.init.initialize_", (scheme, gain), _keeping(diagnosis), seed=SEED)


def _keeping(diagnosis: Diagnosis) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The option that leaves gates unchanged, where there are some."""
    kept = gates(diagnosis)
    return (("keep", kept),) if kept else ()


def has_attention(diagnosis: Diagnosis) -> bool:
    """Whether queries and keys were found."""
    return bool(diagnosis.anatomy.faults.queries or diagnosis.anatomy.faults.attention)


def _is_off_scale(diagnosis: Diagnosis) -> bool:
    """Whether a weight layer returns numbers far from unit scale."""
    sizes = [one.rms for one in diagnosis.layers if one.depth is not None and one.status is Status.MEASURED]
    return any(not _SMALL < size < _LARGE for size in sizes)


def _orthogonal_scheme(diagnosis: Diagnosis) -> str:
    """Of convolutions, one orthogonal matrix at the middle of the kernel: others blur the map a little every layer."""
    return "delta-orthogonal" if diagnosis.anatomy.convolutions else "orthogonal"


def main_activation(diagnosis: Diagnosis) -> nn.Module | None:
    """The kind of activation that is used most, whether it is a module or a function inside a forward."""
    anatomy = diagnosis.anatomy
    modules = Counter(anatomy.activations.values())
    functions: Counter[str] = Counter()
    for call in anatomy.functions:
        functions[call.function] += call.instances
    if functions and (not modules or functions.most_common(1)[0][1] > modules.most_common(1)[0][1]):
        return MODULES[functions.most_common(1)[0][0]]()
    return anatomy.kinds[modules.most_common(1)[0][0]] if modules else None


def _activation_calls(diagnosis: Diagnosis) -> int:
    """How many activations a sample goes through; at least as many as there are modules."""
    names = set(diagnosis.anatomy.activations)
    calls = sum(1 for layer in diagnosis.layers if names & {layer.name, *layer.also})
    return max(calls, len(names))


def _samples_needed(diagnosis: Diagnosis) -> int:
    """The largest rank of a weight between the first layer and the last that is called on one vector a sample."""
    called = {layer.name: layer for layer in diagnosis.layers if layer.depth is not None}
    hidden = list(called.values())[1:-1]
    shapes = diagnosis.anatomy.linear
    return max((min(shapes[one.name]) for one in hidden if one.name in shapes and len(one.shape) == 2), default=0)


def _scaled(diagnosis: Diagnosis) -> dict[str, float]:
    """The argument that weaker branches change; of a network with arguments all branches are known."""
    count = diagnosis.anatomy.residual_blocks
    scale = float(diagnosis.expected.arguments.get("residual_scale", 1.0))
    return {"residual_scale": scale * count**-0.5} if count else {}
