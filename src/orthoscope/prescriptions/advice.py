"""What only the owner of the training loop or of the code can do."""

from orthoscope.diagnosis import Diagnosis
from orthoscope.findings import Symptom
from orthoscope.prescriptions.prescription import Prescription


def advice_for(diagnosis: Diagnosis) -> tuple[Prescription, ...]:
    """Learning rate, clipping, orthogonal weights during training, and skip connections, where each may help."""
    depth = max(1, sum(layer.depth is not None for layer in diagnosis.layers))
    found = [
        Prescription(
            "smaller learning rate",
            f"{depth} weight layers move at once, and what they do to the output adds up: divide a rate that suits a "
            "shallow network by their number, and warm up",
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
                "a network that adds a little to its input in every layer loses neither samples nor gradients",
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


_DEEP = 20  # weight layers
_PARAMETRIZE = """for module in list(model.modules()):
    if isinstance(module, torch.nn.Linear) and module.in_features == module.out_features:
        orthoscope.layers.orthogonal(module)"""
