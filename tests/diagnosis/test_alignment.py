"""From Jacobians to a verdict on alignment: statements with limits, a document, and a diagnosis that goes deep."""

import html
import json
import math

import jsonschema
import pytest
import torch
from torch import Tensor, nn

import orthoscope
from orthoscope import report
from orthoscope.diagnosis.alignment import holds as holds_at
from orthoscope.linalg import haar
from orthoscope.models import MLP, ResNet, Transformer
from orthoscope.theory import equispacing_singular_values

VALIDATOR = jsonschema.Draft202012Validator(report.schema())


class Linear(nn.Module):
    def __init__(self, jacobian: Tensor) -> None:
        super().__init__()
        self.jacobian = nn.Parameter(jacobian)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + hidden @ self.jacobian.mT


@pytest.fixture(scope="module")
def aligned() -> nn.Module:
    direction = haar(16, 1, generator=torch.Generator().manual_seed(0))
    values = equispacing_singular_values(6).float()
    return nn.Sequential(*(Linear(value * direction @ direction.mT) for value in values))


@pytest.mark.slow
def test_a_network_built_to_be_aligned_is(aligned: nn.Module) -> None:
    found = orthoscope.align(aligned, torch.randn(4, 16), samples=4, classes=1)
    assert found.verdict == "ALIGNED"
    assert found.summary.startswith("RA1, RA2, RA3, RA4 hold. Good: ")
    VALIDATOR.validate(found.document())
    assert str(found).startswith("VERDICT      ALIGNED")


@pytest.mark.slow
def test_a_random_network_is_not(generator: torch.Generator) -> None:
    model = ResNet(kind=1, blocks=6, width=40, in_channels=1, image_size=8, generator=generator)
    found = orthoscope.align(model, torch.randn(32, 1, 8, 8, generator=generator), samples=2, classes=5)
    assert found.verdict == "NOT ALIGNED"
    assert found.summary.startswith("RA1, RA2, RA3, RA4 fail. Normal before training: ")
    document = json.loads(found.to_json())
    VALIDATOR.validate(document)
    assert [row["holds"] for row in document["statements"]] == [False] * 4
    assert document["samples"] == 2
    assert len(document["blocks"][0]["singular_values"]) == 6
    assert document["whole"]["spread_log"] > 0


@pytest.mark.slow
def test_dead_blocks_are_named_in_the_summary(generator: torch.Generator) -> None:
    model = ResNet(kind=1, blocks=5, width=20, in_channels=1, image_size=4, generator=generator)
    nn.init.zeros_(model.layers[3].branch.weight2.weight)
    found = orthoscope.align(model, torch.randn(16, 1, 4, 4, generator=generator))
    assert "1 of 5 residual branches is zero, the first layers.3" in found.summary
    assert "zero branch" in str(found)
    VALIDATOR.validate(found.document())


def test_one_block_leaves_what_needs_several_unknown() -> None:
    torch.manual_seed(0)
    found = orthoscope.align(nn.Sequential(Linear(torch.randn(30, 30))), torch.randn(1, 30))
    assert [score.holds for score in found.statements] == [None, None, False, None]
    assert found.verdict == "UNKNOWN"
    assert "RA1, RA2, RA4 are not measured" in found.summary
    VALIDATOR.validate(found.document())


@pytest.mark.slow
def test_tokens_have_no_whole_jacobian_and_their_blocks_do() -> None:
    model = Transformer(depth=2, width=16, heads=2, vocabulary=20, length=6)
    tokens = torch.randint(0, 20, (4, 6))
    found = orthoscope.align(model, tokens, token=-1)
    assert found.whole is None
    assert found.jacobians[0].operator.shape == (16, 16)
    VALIDATOR.validate(found.document())


@pytest.mark.slow
def test_a_diagnosis_goes_deep_only_when_asked(generator: torch.Generator) -> None:
    model = ResNet(kind=1, blocks=3, width=16, in_channels=1, image_size=4, generator=generator)
    batch = torch.randn(16, 1, 4, 4, generator=generator)
    shallow, deep = orthoscope.diagnose(model, batch), orthoscope.diagnose(model, batch, deep=True)
    assert "residual" not in shallow.document()
    document = json.loads(deep.to_json())
    VALIDATOR.validate(document)
    assert document["residual"]["schema"] == "orthoscope.residual/1"
    assert deep.verdict == shallow.verdict
    assert "residual alignment" in str(deep)
    assert "residual alignment" in report.html([document])
    assert "residual alignment" not in report.html([shallow.document()])
    plain = orthoscope.diagnose(MLP(depth=3, width=16, in_features=8), torch.randn(16, 8), deep=True)
    assert any("residual alignment is not known: no residual branch was found" in note for note in plain.notes)
    VALIDATOR.validate(plain.document())


@pytest.mark.slow
def test_a_deep_diagnosis_reads_a_batch_with_targets_as_a_diagnosis_does(generator: torch.Generator) -> None:
    model = ResNet(kind=1, blocks=3, width=16, in_channels=1, image_size=4, generator=generator)
    batch = torch.randn(16, 1, 4, 4, generator=generator), torch.arange(16) % 10
    found = orthoscope.diagnose(model, batch, loss=nn.functional.cross_entropy, deep=True)
    assert found.alignment is not None
    assert not found.notes


def test_the_page_stands_alone_and_says_what_the_terminal_says(aligned: nn.Module) -> None:
    document = orthoscope.align(aligned, torch.randn(1, 16), classes=1, name="<b>net</b>").document()
    page = report.html([document])
    assert html.escape(report.text(document, 110).rstrip("\n")) in page
    assert "<b>net" not in page
    with pytest.raises(ValueError, match="one residual alignment or several diagnoses, not 2 of 2"):
        report.html([document, document])


@pytest.mark.parametrize(("value", "above", "holds"), [(0.5, True, True), (0.5, False, False), (math.nan, True, None)])
def test_a_statement_holds_fails_or_is_not_known(value: float, above: bool, holds: bool | None) -> None:
    assert holds_at(value, 0.3, above) is holds


def test_mistakes_are_named(aligned: nn.Module) -> None:
    with pytest.raises(ValueError, match="at least 1 sample"):
        orthoscope.align(aligned, torch.randn(4, 16), samples=0)
