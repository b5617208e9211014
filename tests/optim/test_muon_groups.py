"""Which parameters of a model go to Muon, and as which matrices."""

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

from orthoscope.layers import orthogonal
from orthoscope.models import MLP, ConvNet, Transformer
from orthoscope.optim import MatrixView, Muon, muon_parameter_groups
from orthoscope.optim.muon.groups import check_views

PLAIN = MatrixView().plain


def matrices(model: nn.Module, **options: Any) -> dict[str, MatrixView]:
    """The views of Muon's group by name; also checks that every parameter is in one group."""
    groups = muon_parameter_groups(model, **options)
    names = [name for group in groups for name in group["param_names"]]
    given = [id(p) for group in groups for p in group["params"]]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
    assert sorted(given) == sorted(id(p) for p in model.parameters())
    assert [group["use_muon"] for group in groups] == [True, False][: len(groups)]
    Muon(groups)
    return {name: MatrixView(*view) for name, view in zip(groups[0]["param_names"], groups[0]["views"], strict=True)}


def test_hidden_layers_of_a_perceptron_are_chosen_and_the_head_is_not() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2))
    assert list(matrices(model)) == ["0.weight", "2.weight"]
    assert list(matrices(model, exclude=())) == ["0.weight", "2.weight", "4.weight"]
    assert list(matrices(model, include=["2", "4"])) == ["2.weight", "4.weight"]
    assert list(matrices(model, include="[24]")) == ["2.weight", "4.weight"]
    assert list(matrices(model, include=["0", "4.weight"], exclude="4")) == ["0.weight"]
    assert list(matrices(model, include=lambda name, layer: layer.out_features == 8)) == ["0.weight", "2.weight"]
    assert list(matrices(nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 2, bias=False)))) == ["0.weight"]


@pytest.mark.parametrize(
    "exclude",
    ["0", ["0.weight"], iter(["0"]), lambda name, _: name == "0"],
    ids=["one", "list", "iterator", "function"],
)
def test_the_head_stays_with_adamw_whatever_else_is_excluded(exclude: Any) -> None:
    model = nn.Sequential(OrderedDict({"0": nn.Linear(4, 8), "1": nn.Linear(8, 8), "head": nn.Linear(8, 2)}))
    assert list(matrices(model, exclude=exclude)) == ["1.weight"]


@pytest.mark.parametrize("nothing", [(), [], iter(())], ids=["tuple", "list", "iterator"])
def test_the_head_goes_to_muon_if_nothing_is_excluded_or_it_is_included(nothing: Any) -> None:
    model = nn.Sequential(OrderedDict({"0": nn.Linear(4, 8), "1": nn.Linear(8, 8), "head": nn.Linear(8, 2)}))
    assert list(matrices(model, exclude=nothing)) == ["0.weight", "1.weight", "head.weight"]
    assert list(matrices(model, include=["[01]", "head"], exclude="0")) == ["1.weight", "head.weight"]


def test_there_is_no_empty_second_group() -> None:
    groups = muon_parameter_groups(nn.Sequential(nn.Linear(3, 3, bias=False)), exclude=())
    assert [group["param_names"] for group in groups] == [["0.weight"]]


def test_embeddings_and_heads_tied_to_them_are_not_chosen() -> None:
    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.output = nn.Linear(8, 50, bias=False)  # before the embedding, whose name it then takes
            self.token = nn.Embedding(50, 8)
            self.position = nn.Parameter(torch.zeros(1, 5, 8))
            self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)
            self.head = nn.Linear(8, 3)
            self.output.weight = self.token.weight

    assert list(matrices(Language())) == ["up.weight", "down.weight"]
    assert list(matrices(Language(), exclude=())) == ["up.weight", "down.weight", "head.weight"]
    chosen = matrices(Language(), views={"position": MatrixView(batched=True)}, include=["position", "up"])
    assert chosen == {"position": MatrixView(batched=True), "up.weight": MatrixView()}


def test_our_own_models_leave_head_and_embeddings_to_adamw() -> None:
    for model in (MLP(depth=3, width=8), ConvNet(), Transformer(depth=1, width=8, heads=2, vocabulary=11, length=5)):
        rest = {name for name, p in model.named_parameters() if p.ndim >= 2} - set(matrices(model))
        assert rest == {"head.weight"} | (
            {"tokens.weight", "positions.weight"} if isinstance(model, Transformer) else set()
        )


def test_convolutions_are_cut_into_groups_and_gates_into_matrices() -> None:
    model = nn.ModuleDict(
        {
            "plain": nn.Conv2d(3, 8, 3),
            "depthwise": nn.Conv2d(8, 8, 3, groups=8),
            "transposed": nn.ConvTranspose1d(8, 4, 3, groups=2),
            "lstm": nn.LSTM(4, 5, proj_size=3),
            "cell": nn.GRUCell(3, 6),
            "end": nn.Linear(6, 2),
        }
    )
    shapes = {name: view.shape(model.get_parameter(name).shape) for name, view in matrices(model).items()}
    assert shapes == {
        "plain.weight": (1, 8, 27),
        "depthwise.weight": (8, 1, 9),
        "transposed.weight": (2, 2, 12),
        "lstm.weight_ih_l0": (4, 5, 4),
        "lstm.weight_hh_l0": (4, 5, 3),
        "lstm.weight_hr_l0": (1, 3, 5),
        "cell.weight_ih": (3, 6, 3),
        "cell.weight_hh": (3, 6, 6),
    }


def test_fused_query_key_and_value_are_three_matrices() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(OrderedDict(layer=layer, head=nn.Linear(8, 2)))
    chosen = matrices(model)
    assert chosen.pop("layer.self_attn.in_proj_weight") == MatrixView(parts=3)
    assert chosen == dict.fromkeys(
        ["layer.self_attn.out_proj.weight", "layer.linear1.weight", "layer.linear2.weight"], MatrixView()
    )
    other = nn.MultiheadAttention(8, 2, kdim=4, vdim=6)
    names = ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"]
    assert matrices(other, exclude=()) == dict.fromkeys(names, MatrixView())


@pytest.mark.parametrize("name", ["qkv", "c_attn", "Wqkv", "wqkv", "QKV_proj"])
def test_a_linear_layer_with_the_name_of_fused_attention_is_three_matrices(name: str) -> None:
    def model(outputs: int) -> nn.Module:
        return nn.Sequential(OrderedDict({name: nn.Linear(4, outputs), "head": nn.Linear(outputs, 2)}))

    assert matrices(model(12)) == {f"{name}.weight": MatrixView(parts=3)}
    assert matrices(model(8)) == {f"{name}.weight": MatrixView()}, "two and three outputs an input are told apart"
    assert matrices(model(12), views={f"*{name}": MatrixView(parts=6)}) == {f"{name}.weight": MatrixView(parts=6)}


@pytest.mark.parametrize("name", ["query_key_value", "gate_up_proj", "kv"])
def test_fused_layers_with_an_ambiguous_name_are_one_matrix(name: str) -> None:
    model = nn.Sequential(OrderedDict({name: nn.Linear(4, 12), "head": nn.Linear(12, 2)}))
    assert matrices(model) == {f"{name}.weight": MatrixView()}


class Conv1D(nn.Module):
    """As in transformers: a linear layer whose weight is stored (in, out)."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf, self.nx = nf, nx
        self.weight, self.bias = nn.Parameter(torch.randn(nx, nf)), nn.Parameter(torch.zeros(nf))


def test_layers_of_gpt2_are_read_transposed() -> None:
    block = nn.ModuleDict({"c_attn": Conv1D(24, 8), "c_proj": Conv1D(8, 8), "c_fc": Conv1D(32, 8)})
    model = nn.ModuleDict({"wte": nn.Embedding(11, 8), "h": block, "lm_head": nn.Linear(8, 11, bias=False)})
    model["lm_head"].weight = model["wte"].weight
    chosen = matrices(model)
    assert chosen == {
        "h.c_attn.weight": MatrixView(parts=3, transposed=True),
        "h.c_proj.weight": MatrixView(transposed=True),
        "h.c_fc.weight": MatrixView(transposed=True),
    }
    shapes = [view.shape(model.get_parameter(name).shape) for name, view in chosen.items()]
    assert shapes == [(3, 8, 8), (1, 8, 8), (1, 32, 8)]


def test_experts_are_matrices_when_views_say_so() -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(4, 3)
            self.up = nn.Parameter(torch.randn(3, 8, 4))
            self.head = nn.Linear(4, 2)

    assert list(matrices(Experts())) == ["router.weight"]
    chosen = matrices(
        nn.ModuleDict({"block": Experts(), "end": nn.Linear(2, 2)}), views={"*.up": MatrixView(batched=True)}
    )
    assert chosen["block.up"] == MatrixView(batched=True)


def test_parametrized_layers_are_left_to_adamw() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2))
    nn.init.orthogonal_(model[0].get_parameter("weight"))
    orthogonal(model[0])
    weight_norm(model[1])
    assert parametrize.is_parametrized(model[0], "weight")
    assert list(matrices(model)) == ["2.weight"]
    with pytest.raises(ValueError, match=r"'0' matches no weight of a known layer: choose among 2.weight, 3.weight"):
        muon_parameter_groups(model, include="0")


def test_selections_that_match_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no parameter of Linear is left for Muon .*it has weight, output layers"):
        muon_parameter_groups(nn.Linear(3, 3))
    with pytest.raises(ValueError, match=r"it has no matrix of a known layer"):
        muon_parameter_groups(nn.Embedding(3, 3))
    with pytest.raises(ValueError, match=r"'body' matches no weight of a known layer: choose among 0.weight"):
        muon_parameter_groups(nn.Sequential(nn.Linear(3, 3)), include="body")
    with pytest.raises(ValueError, match=r"'x' in views matches no parameter"):
        muon_parameter_groups(nn.Sequential(nn.Linear(3, 3)), views={"x": MatrixView()})
    with pytest.raises(ValueError, match=r"0.weight has no shape yet"):
        muon_parameter_groups(nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 3)))


@pytest.mark.parametrize("given", [3, (3, 1, False, False), None], ids=str)
def test_a_value_that_is_no_view_is_refused_with_its_pattern(given: object) -> None:
    with pytest.raises(TypeError, match=r"views\['\*.c_attn.weight'\] must be a MatrixView, such as .*, got"):
        check_views({"*.qkv": MatrixView(3), "*.c_attn.weight": given})
    model = nn.Sequential(OrderedDict(c_attn=nn.Linear(4, 12), head=nn.Linear(12, 2)))
    with pytest.raises(Exception, match=r"MatrixView"):  # under the checks of these tests, said by beartype
        muon_parameter_groups(model, views={"c_attn.weight": given})  # type: ignore[dict-item]


def test_a_view_that_does_not_divide_the_outputs_is_refused_with_the_name_of_the_parameter() -> None:
    model = nn.Sequential(OrderedDict(c_attn=nn.Linear(32, 96), head=nn.Linear(96, 2)))
    with pytest.raises(ValueError, match=r"^c_attn.weight: .* \(96, 32\) cannot be cut into equal blocks .*parts=7"):
        muon_parameter_groups(model, views={"c_attn*": MatrixView(parts=7)})


@pytest.mark.slow
def test_a_model_trains() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(32, 6, generator=generator)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) / 4)
    optimizer = Muon(muon_parameter_groups(model), lr=0.02, adamw_lr=0.01)

    def loss() -> Tensor:
        out: Tensor = (model(inputs) - inputs.prod(-1, keepdim=True)).square().mean()
        return out

    before = loss().item()
    for _ in range(60):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss().item() < before / 10
