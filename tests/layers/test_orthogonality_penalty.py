"""The penalty of a whole model: what it covers, what it adds up, and how it reads a convolution."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from orthoscope.layers.convolution import orthogonal_convolution
from orthoscope.layers.orthogonality_penalty import OrthogonalityPenalty
from orthoscope.layers.penalties import double_sided_orthogonality, mutual_coherence, soft_orthogonality, srip
from orthoscope.linalg import haar, weight_matrix
from references.dense_convolution import circular, dense_matrix

KINDS = ["so", "dso", "srip", "coherence"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)  # the layers' own initialization


class LanguageModel(nn.Module):
    """A tied head, norms, biases, and layers of equal and of different shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(6, 8)
        self.norm = nn.LayerNorm(6)
        self.convolution = nn.Conv1d(6, 4, 3)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight


def alone(kind: str, weight: Tensor) -> float:
    matrix = weight_matrix(weight.detach())
    if kind == "srip":
        return float(srip(matrix))
    if kind == "coherence":
        return float(mutual_coherence(matrix))
    norm = soft_orthogonality if kind == "so" else double_sided_orthogonality
    return float(norm(matrix, remove_floor=True))


@pytest.mark.parametrize("kind", KINDS)
def test_penalty_is_the_weighted_sum_over_linear_and_convolution_weights(kind: str) -> None:
    model = LanguageModel()
    penalty = OrthogonalityPenalty(model, kind, weight=0.5)
    assert penalty.names == ("first.weight", "second.weight", "convolution.weight")
    expected = {name: alone(kind, model.get_parameter(name)) for name in penalty.names}
    total = penalty()
    assert total.shape == ()
    assert total.item() == pytest.approx(0.5 * sum(expected.values()), rel=1e-5)
    assert OrthogonalityPenalty(model, kind).values() == pytest.approx(expected, rel=1e-5)
    total.backward()
    covered = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert covered == set(penalty.names)


def test_a_penalty_owns_none_of_the_models_parameters() -> None:
    penalty = OrthogonalityPenalty(LanguageModel(), "srip")
    assert list(penalty.parameters()) == []
    assert set(penalty.state_dict()) == {"direction_0", "direction_1", "direction_2"}
    assert "srip" in repr(penalty)


@pytest.mark.parametrize(
    ("include", "names"),
    [
        ("first", ["first.weight"]),
        ("*.weight", ["first.weight", "second.weight", "convolution.weight", "head.weight"]),
        (["conv*", "second.weight"], ["second.weight", "convolution.weight"]),
        (lambda name, layer: name != "first" and isinstance(layer, nn.Linear), ["second.weight", "head.weight"]),
    ],
    ids=["layer", "pattern", "list", "function"],
)
def test_include_takes_names_patterns_or_a_function(include: object, names: list[str]) -> None:
    assert list(OrthogonalityPenalty(LanguageModel(), include=include).names) == names  # type: ignore[arg-type]


def test_a_selection_of_nothing_is_refused_and_says_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"'frist' matches no weight of .*: choose among first.weight, second"):
        OrthogonalityPenalty(LanguageModel(), include=["first", "frist"])
    with pytest.raises(ValueError, match=r"no weight of LanguageModel is selected: it has first.weight"):
        OrthogonalityPenalty(LanguageModel(), include=lambda name, layer: False)
    with pytest.raises(ValueError, match=r"it has no nn.Linear and no nn.Conv\* layer"):
        OrthogonalityPenalty(nn.Sequential(nn.Embedding(3, 4), nn.LayerNorm(4)))


def test_lazy_layers_are_refused_until_they_have_a_shape() -> None:
    model = nn.Sequential(nn.LazyLinear(3))
    with pytest.raises(ValueError, match=r"0.weight has no shape yet: run one batch"):
        OrthogonalityPenalty(model)
    model(torch.ones(1, 2))
    assert OrthogonalityPenalty(model).names == ("0.weight",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "dsp"}, "dsp"),
        ({"convolution": "dense"}, "dense"),
        ({"kind": "srip", "convolution": "operator"}, "is for so and dso, not for 'srip'"),
        ({"kind": "coherence", "squared": True}, "coherence is none"),
        ({"kind": "srip", "steps": 0}, "at least one step"),
    ],
    ids=["kind", "convolution", "operator", "squared", "steps"],
)
def test_options_that_do_not_exist_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(Exception, match=message):  # ValueError, or the type checker's while tests run
        OrthogonalityPenalty(LanguageModel(), **options)  # type: ignore[arg-type]


def test_a_weight_used_by_two_layers_counts_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    assert OrthogonalityPenalty(model).names == ("0.weight",)


@pytest.mark.parametrize("kind", KINDS)
def test_a_grouped_convolution_is_the_block_diagonal_matrix(kind: str) -> None:
    conv = nn.Conv2d(4, 6, 2, groups=2, dtype=torch.float64)
    with torch.no_grad():
        conv.weight.mul_(torch.logspace(0, 1, 6, dtype=torch.float64).view(6, 1, 1, 1))  # no two directions alike
    matrix = torch.block_diag(*conv.weight.detach().unflatten(0, (2, 3)).flatten(2))
    dense = nn.Linear(16, 6, dtype=torch.float64)
    with torch.no_grad():
        dense.weight.copy_(matrix)
    # Enough steps for the two to find the same direction.
    values = [OrthogonalityPenalty(model, kind, steps=100)().item() for model in (conv, dense)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_parametrized_and_replaced_weights_are_read_at_every_call(kind: str) -> None:
    model = nn.Sequential(nn.Linear(5, 5), nn.utils.parametrizations.weight_norm(nn.Linear(5, 5)))
    penalty = OrthogonalityPenalty(model, kind)
    assert penalty.names == ("0.weight", "1.weight")
    before = penalty().item()
    model[0].weight = nn.Parameter(haar(5, 5, generator=torch.Generator().manual_seed(0)))
    assert 0 < penalty().item() < before
    penalty().backward()
    assert model[1].parametrizations.weight.original1.grad is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_descending_the_penalty_makes_every_weight_orthogonal(kind: str) -> None:
    model = LanguageModel()
    penalty = OrthogonalityPenalty(model, kind, weight=1.0)
    before = penalty().item()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(150):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / 150)
        optimizer.zero_grad()
        penalty().backward()
        optimizer.step()
    # The maxima of srip and coherence are taken down one direction at a time.
    assert penalty().item() < (1e-2 if kind in ("so", "dso") else 0.1) * before


@pytest.mark.slow
def test_srip_goes_on_from_the_direction_it_found() -> None:
    layer = nn.Linear(60, 30, dtype=torch.float64)
    exact = float((torch.linalg.svdvals(layer.weight.detach()).square() - 1).abs().max())
    penalty = OrthogonalityPenalty(layer, "srip", weight=1.0)
    first = penalty().item()
    for _ in range(300):
        penalty()
    assert first < 0.99 * exact
    assert penalty().item() == pytest.approx(exact, rel=1e-6)
    restored = OrthogonalityPenalty(layer, "srip", weight=1.0)
    restored.load_state_dict(penalty.state_dict())
    assert restored().item() == pytest.approx(exact, rel=1e-6)
    measuring = OrthogonalityPenalty(layer, "srip", weight=1.0).eval()
    assert measuring().item() == measuring().item() == first, "out of training nothing moves"


def test_srip_recovers_from_orthonormal_and_from_nan_weights() -> None:
    layer = nn.Linear(4, 4, bias=False)
    penalty = OrthogonalityPenalty(layer, "srip", weight=1.0)
    for passing in (torch.eye(4), torch.full((4, 4), torch.nan)):
        layer.weight.data = passing
        penalty()
        layer.weight.data = 2 * torch.eye(4)
        assert penalty().item() == pytest.approx(3)


@pytest.mark.parametrize("kind", KINDS)
def test_two_calls_in_one_graph_and_a_copy_work(kind: str) -> None:
    model = LanguageModel()
    penalty = OrthogonalityPenalty(model, kind)
    (penalty() + penalty()).backward()
    model_copy, penalty_copy = copy.deepcopy((model, penalty))
    with torch.no_grad():
        model_copy.first.weight.mul_(3)
    assert penalty_copy.values()["first.weight"] != penalty.values()["first.weight"] or kind == "coherence"


def test_weights_on_several_devices_are_added_up_on_the_first_ones() -> None:
    model = nn.Sequential(nn.Linear(3, 4, device="meta"), nn.Linear(3, 4))
    assert OrthogonalityPenalty(model)().device.type == "meta"


def test_bfloat16_weights_are_penalized_in_float32() -> None:
    layer = nn.Linear(6, 4)
    layer.weight.data = layer.weight.data.bfloat16().float()
    value = OrthogonalityPenalty(layer)()
    layer.bfloat16()
    half = OrthogonalityPenalty(layer)()
    assert half.dtype is torch.float32
    assert half.item() == value.item()
    half.backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype is torch.bfloat16


def value_of(conv: nn.Module, convolution: str, **options: object) -> float:
    return OrthogonalityPenalty(conv, weight=1.0, convolution=convolution, **options)().item()  # type: ignore[arg-type]


def test_filters_can_be_orthonormal_and_the_convolution_not() -> None:
    conv = circular(2, 3, 3)
    with torch.no_grad():
        conv.weight.copy_(haar(3, 18, generator=torch.Generator().manual_seed(0), dtype=torch.float64).view(3, 2, 3, 3))
    assert value_of(conv, "matrix") < 1e-12
    assert value_of(conv, "operator") > 0.3
    assert float(torch.linalg.svdvals(dense_matrix(conv, (6, 6)))[0]) > 1.2


def test_a_convolution_can_be_orthogonal_and_its_matrix_not() -> None:
    """More outputs than inputs: an isometry, while one position sees fewer columns than it has filters."""
    conv = orthogonal_convolution(circular(2, 30, 3), start="haar", generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(dense_matrix(conv, (4, 4)))
    assert float((values - 1).abs().max()) < 1e-12
    assert value_of(conv, "operator") < 1e-12
    assert value_of(conv, "matrix") > 1


@pytest.mark.parametrize("kind", ["so", "dso"])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("channels", [(4, 4), (6, 4), (4, 10)])
@pytest.mark.parametrize("stride", [1, 2])
def test_operator_form_is_that_of_the_dense_matrix(
    kind: str, squared: bool, channels: tuple[int, int], stride: int
) -> None:
    """For one position: the squared norms of a periodic image are as many times as large as it has positions."""
    conv = circular(*channels, 3, stride=stride)
    dense, positions = dense_matrix(conv, (8, 8)), (8 // stride) ** 2
    rows, columns = (size / positions for size in dense.shape)
    squares = [
        float((side.mT @ side - torch.eye(side.shape[1], dtype=side.dtype)).square().sum()) / positions
        for side in (dense, dense.mT)
    ]
    sides, floors = squares, [max(0, columns - rows), max(0, rows - columns)]
    if kind == "so":
        sides, floors = sides[:1], floors[:1]
    power = 1 if squared else 0.5
    expected = sum(side**power for side in sides) - sum(floor**power for floor in floors)
    assert value_of(conv, "operator", kind=kind, squared=squared) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["so", "dso"])
def test_a_transposed_convolution_is_the_adjoint(kind: str) -> None:
    """Its matrix has as many columns as the convolution of the same kernel has rows."""
    up = nn.ConvTranspose2d(6, 2, 3, stride=2, bias=False, dtype=torch.float64)
    down = circular(2, 6, 3, stride=2)
    with torch.no_grad():
        down.weight.copy_(up.weight)
    same = value_of(up, "operator", kind="dso") == pytest.approx(value_of(down, "operator", kind="dso"))
    assert same
    # 8 inputs (2 channels, 4 phases) and 6 outputs: only the convolution is wide, and has a floor.
    deviation = value_of(up, "operator", kind="so", squared=True)
    assert value_of(up, "operator", kind="so") == pytest.approx(deviation**0.5)
    assert value_of(down, "operator", kind="so") == pytest.approx((deviation + 2) ** 0.5 - 2**0.5)


def test_dilation_moves_the_taps_apart_and_changes_nothing() -> None:
    conv = circular(3, 3, 3)
    dilated = circular(3, 3, 3, dilation=2)
    dilated.load_state_dict(conv.state_dict())
    assert value_of(conv, "operator") == value_of(dilated, "operator")
    with pytest.raises(ValueError, match="weight is both strided and dilated"):
        value_of(circular(3, 3, 3, dilation=2, stride=2), "operator")


def test_gradient_of_the_operator_form_is_right() -> None:
    conv = circular(2, 3, 2)
    penalty = OrthogonalityPenalty(conv, convolution="operator", weight=1.0)

    def of_kernel(kernel: Tensor) -> Tensor:
        conv.weight = kernel  # a parameter's place takes only parameters
        return penalty()

    del conv._parameters["weight"]
    kernel = torch.randn(3, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(of_kernel, (kernel,))
    assert torch.autograd.gradgradcheck(of_kernel, (kernel,))


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")], ids=repr)
def test_a_weight_that_does_not_pull_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match=r"weight=.* give a finite number from 0 up"):
        OrthogonalityPenalty(nn.Linear(3, 3), weight=weight)


def test_reading_the_values_does_not_change_the_directions_of_srip() -> None:
    penalty = OrthogonalityPenalty(nn.Linear(6, 4), "srip")
    assert penalty.values() == penalty.values()
    before = {name: buffer.clone() for name, buffer in penalty.named_buffers()}
    penalty()
    assert any(not torch.equal(before[name], buffer) for name, buffer in penalty.named_buffers())


@pytest.mark.parametrize(
    ("kind", "convolution"),
    [("so", "matrix"), ("so", "operator"), ("dso", "operator"), ("srip", "matrix"), ("coherence", "matrix")],
)
def test_a_complex_weight_is_refused_by_its_name(kind: str, convolution: str) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Conv1d(3, 3, 2, dtype=torch.complex64))
    with pytest.raises(TypeError, match=r"^1.weight is of type torch.complex64, .* leave it out by `include`$"):
        OrthogonalityPenalty(model, kind, convolution=convolution)  # type: ignore[arg-type]
    assert OrthogonalityPenalty(model, kind, include="0").names == ("0.weight",)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_weight_that_is_no_number_is_named() -> None:
    """In a process of its own: while tests run, arguments of a wrong type do not get as far as our own checks."""
    mistake = "from torch import nn; from orthoscope.layers import *; OrthogonalityPenalty(nn.Linear(2, 2), weight='a')"
    run = subprocess.run([sys.executable, "-c", mistake], capture_output=True, text=True, check=False)
    assert run.stderr.endswith("TypeError: weight must be a number, got 'a': convert it with float()\n"), run.stderr
