"""From a diagnosis to ranked prescriptions: the remedies, one function each, and the plan that they make.

A remedy gives a prescription, or None where it does not apply. A new one is a function here and its name in `REMEDIES`,
in the order in which they are tried: weights before architecture, because numbers are easier to change than code.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from torch import nn

from orthoscope import report
from orthoscope.activations import blend_activations_, toward_identity
from orthoscope.diagnosis import Diagnosis
from orthoscope.diagnosis.inspection import doubt_that_drawn
from orthoscope.findings import Symptom, Verdict
from orthoscope.init import initialize_, iterative_, lsuv_
from orthoscope.prescriptions._blending import blending_strength, critical_gain, kernel_of, rounded
from orthoscope.prescriptions.edits import insert_norms_, scale_branches_
from orthoscope.prescriptions.prescription import Change, Prescription, foreseen
from orthoscope.probe.hooks import unwrapped

SEED = 0
_HERE = "orthoscope.prescriptions"
_DEEP = 20  # weight layers
_PARAMETRIZE = """for module in list(model.modules()):
    if isinstance(module, torch.nn.Linear) and module.in_features == module.out_features:
        orthoscope.layers.orthogonal(module)"""


def orthogonal_weights(diagnosis: Diagnosis) -> Prescription | None:
    """Orthogonal weights at the critical gain of the activation."""
    if not diagnosis.anatomy.weights:
        return None
    main = _main_activation(diagnosis)
    gain = 1.0 if main is None else critical_gain(main)
    of = "without an activation" if main is None else f"of {main!r}"
    return Prescription(
        "orthogonal weights",
        f"linear layers then preserve lengths and angles; {gain:g} is the critical gain {of}",
        (_initialize(_orthogonal_scheme(diagnosis), gain),),
        foresee=foreseen(diagnosis, init="orthogonal", weight_gain=gain, bias_std=0.0),
    )


def xavier_weights(diagnosis: Diagnosis) -> Prescription | None:
    """Weights of moderate size, where branches are added up."""
    if not diagnosis.anatomy.weights:
        return None
    return Prescription(
        "Xavier weights",
        "weights of variance 2/(fan in + fan out) keep signals and gradients near constant size",
        (_initialize("xavier", 1.0),),
        foresee=foreseen(diagnosis, init="xavier", weight_gain=1.0, bias_std=0.0),
    )


def weaker_branches(diagnosis: Diagnosis) -> Prescription | None:
    """Residual branches divided by the root of their number."""
    if not diagnosis.anatomy.may_branch:
        return None
    return Prescription(
        "weaker residual branches",
        "the sum of n residual branches grows with depth: divided by √n it stays the size of one branch",
        (Change(scale_branches_, f"{_HERE}.scale_branches_", batch=True),),
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
        (Change(lsuv_, "orthoscope.init.lsuv_", batch=True, seed=SEED),),
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
    main = _main_activation(diagnosis)
    if main is None or not anatomy.weights:
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
            _initialize(_orthogonal_scheme(diagnosis), gain),
        ),
        architecture=True,
        foresee=foreseen(diagnosis, activation=blended, gain=1.0, init="orthogonal", weight_gain=gain, bias_std=0.0),
    )


def normalized_inputs(diagnosis: Diagnosis) -> Prescription | None:
    """Layer normalization before every hidden layer that has none."""
    if len(diagnosis.anatomy.weights) < 3:
        return None
    weights = orthogonal_weights(diagnosis)
    assert weights is not None
    return Prescription(
        "normalization before hidden layers",
        "activations keep unit scale whatever the weights, and their mean over units is subtracted",
        (Change(insert_norms_, f"{_HERE}.insert_norms_", batch=True), *weights.changes),
        architecture=True,
    )


Remedy = Callable[[Diagnosis], Prescription | None]
REMEDIES: tuple[Remedy, ...] = (
    orthogonal_weights,
    weaker_branches,
    weaker_branches_anew,
    unit_variance,
    iterative_orthogonalization,
    blended_activations,
    normalized_inputs,
)


def _initialize(scheme: str, gain: float) -> Change:
    return Change(initialize_, "orthoscope.init.initialize_", (scheme, gain), seed=SEED)


def _orthogonal_scheme(diagnosis: Diagnosis) -> str:
    """Of convolutions, one orthogonal matrix at the middle of the kernel: others blur the map a little every layer."""
    return "delta-orthogonal" if diagnosis.anatomy.convolutions else "orthogonal"


def _main_activation(diagnosis: Diagnosis) -> nn.Module | None:
    """The kind of activation that most modules have."""
    counts = Counter(diagnosis.anatomy.activations.values())
    return diagnosis.anatomy.kinds[counts.most_common(1)[0][0]] if counts else None


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


def advice_for(diagnosis: Diagnosis) -> tuple[Prescription, ...]:
    """Learning rate, clipping, orthogonal weights during training, and skip connections, where each may help."""
    depth = max(1, sum(layer.depth is not None for layer in diagnosis.layers))
    found = [
        Prescription(
            "smaller learning rate",
            f"the updates of {depth} weight layers add up at the output: divide the learning rate of a shallow network "
            "by their number, and use warm-up",
            advice=f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / {depth}, momentum=0.9)",
        )
    ]
    if Symptom.EXPLODE in diagnosis.symptoms:
        found.append(
            Prescription(
                "clipped gradients",
                "gradients explode in some layers: clipping each by the size of its weight keeps the others moving",
                advice="orthoscope.optim.clip_adaptively_(model)  # after backward, before the step",
            )
        )
    if not diagnosis.anatomy.residual_blocks and depth >= _DEEP:
        found.append(
            Prescription(
                "skip connections",
                "a residual network preserves samples and gradients at any depth",
                advice="h = h + block(h) / depth**0.5  # in forward, for blocks that keep the shape",
            )
        )
    if diagnosis.anatomy.weights:
        found.append(
            Prescription(
                "orthogonal weights while training",
                "square layers stay orthogonal at every step, not only at the first",
                advice=_PARAMETRIZE,
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class Plan(Sequence[Prescription]):
    """Prescriptions in the order in which to try them, as a sequence; empty for a healthy network. Made by `prescribe`.

    Attributes:
        diagnosis: The diagnosis that they follow from.
        steps: The prescriptions.
        refusal: Why weights may not be changed; empty if they may.
        allowed: Whether the user said that the weights are not trained, or may be lost.
    """

    diagnosis: Diagnosis
    steps: tuple[Prescription, ...]
    refusal: str = ""
    allowed: bool = False

    def __str__(self) -> str:
        name, verdict = self.diagnosis.name, self.diagnosis.verdict
        if not self.steps:
            return f"{name} is {verdict}: nothing to change"
        first = f"{name} is {verdict}: {len(self.steps)} prescriptions, the most promising first"
        refused = [self.refusal] if self.refusal else []
        return "\n".join([first, *refused, "", report.plan_text([step.as_document() for step in self.steps])])

    __repr__ = __str__

    @overload
    def __getitem__(self, index: int) -> Prescription: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Prescription, ...]: ...
    def __getitem__(self, index: int | slice) -> Prescription | tuple[Prescription, ...]:
        return self.steps[index]

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def applicable(self) -> tuple[Prescription, ...]:
        """The steps that change the model; the others are advice for the training loop or the code."""
        return tuple(step for step in self.steps if step.applies)

    def apply_(self, model: nn.Module, batch: Any, loss: Any = None) -> tuple[Prescription, ...]:
        """Try the steps on copies, then apply the best of them in place.

        All or nothing: if no step helps, the model is unchanged. So it is if its weights may be trained (`doubt`) and
        `prescribe` was not told otherwise.

        Args:
            model: Changed in place.
            batch: As for `diagnose`.
            loss: As for `diagnose`.

        Returns:
            The steps that were applied, with their measured effect.

        Raises:
            ValueError: If nothing was changed, with the reason.
        """
        from orthoscope.prescriptions.trials import fix_by_plan

        if self.applicable and (doubt := self.doubt(model)):
            raise ValueError(
                f"nothing was changed, because the weights may be trained ({doubt}): if they are not, "
                "prescribe(diagnosis, trained=False) allows new ones in place"
            )
        fixed = fix_by_plan(self, model, batch, loss)
        if not fixed.steps:
            raise ValueError(f"nothing was changed: {fixed.sentence}")
        # Every step has just run on a copy, from the same seeds: it runs here too.
        for step in fixed.steps:
            step.apply_(model, batch)
        return fixed.steps

    def doubt(self, model: nn.Module) -> str:
        """Why the weights of `model` may be trained (`doubt_that_drawn`); empty if not, or if new ones are allowed."""
        return "" if self.allowed else doubt_that_drawn(unwrapped(model))


def prescribe(diagnosis: Diagnosis, *, trained: bool | None = None, reinitialize: bool = False) -> Plan:
    """Prescribe changes for a diagnosed network, in the order in which to try them, each with its predicted effect.

    Args:
        diagnosis: From `diagnose`.
        trained: Whether the weights are trained, which leaves them unchanged. By default judged by signs (see
            `orthoscope.diagnosis.inspection.signs_of_training`); False says that they are not.
        reinitialize: Allow new weights for a trained network.

    Returns:
        The plan; only advice if the weights are left unchanged.

    Raises:
        ValueError: If the argument is not a diagnosis.

    Example:
        >>> model = orthoscope.models.MLP(depth=50, width=32)
        >>> orthoscope.prescribe(orthoscope.diagnose(model, torch.randn(64, 32)))[0].name
        'orthogonal weights'
    """
    if not isinstance(diagnosis, Diagnosis):
        raise ValueError(
            f"prescriptions follow from a diagnosis, got a {type(diagnosis).__name__}: call diagnose first"
        )
    if diagnosis.verdict.rank < Verdict.AT_RISK.rank:
        return Plan(diagnosis, ())
    signs = diagnosis.anatomy.trained if trained is None else "trained=True was given" if trained else ""
    if signs and not reinitialize:
        refusal = f"the weights are left unchanged, because {signs}: reinitialize=True allows new ones"
        return Plan(diagnosis, advice_for(diagnosis), refusal)
    found = [step for remedy in REMEDIES if (step := remedy(diagnosis)) is not None]
    return Plan(diagnosis, (*found, *advice_for(diagnosis)), allowed=trained is False or reinitialize)
