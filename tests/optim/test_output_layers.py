"""Which layers of a model are taken to be its outputs, and so left to AdamW."""

from collections import OrderedDict

import pytest
from torch import nn

from orthoscope.optim import muon_parameter_groups
from orthoscope.optim.muon.groups import output_layers


def layers(*names: str) -> nn.Sequential:
    return nn.Sequential(OrderedDict({name: nn.Linear(4, 4) for name in names}))


@pytest.mark.parametrize("name", ["head", "classifier", "lm_head", "qa_outputs", "score"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_head_is_recognized_by_its_name_wherever_it_is_defined(name: str, wrapped: bool) -> None:
    """As in VGG the classifier may be several layers, of which only the last is the output."""
    top = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    model: nn.Module = nn.Sequential(OrderedDict({name: top, "body": nn.Linear(4, 8), "end": nn.Linear(8, 8)}))
    prefix = ""
    if wrapped:
        model, prefix = nn.Sequential(OrderedDict({"module": model})), "module."
    assert output_layers(model) == {f"{prefix}{name}.2"}
    chosen = muon_parameter_groups(model)[0]["param_names"]
    assert chosen == [f"{prefix}{name}.0.weight", f"{prefix}body.weight", f"{prefix}end.weight"]


def test_a_language_model_that_defines_its_head_first_keeps_its_last_projection() -> None:
    """The order of LitGPT."""
    block = nn.ModuleDict({"attn": nn.Linear(4, 4), "mlp": nn.ModuleDict({"proj": nn.Linear(4, 4)})})
    body = nn.ModuleDict({"wte": nn.Embedding(5, 4), "h": nn.ModuleList([block])})
    model = nn.ModuleDict({"lm_head": nn.Linear(4, 5, bias=False), "transformer": body})
    chosen = muon_parameter_groups(model)[0]["param_names"]
    assert chosen == ["transformer.h.0.attn.weight", "transformer.h.0.mlp.proj.weight"]


@pytest.mark.parametrize(
    ("names", "outputs"),
    [
        (("conv", "fc", "head"), ["head"]),
        (("dense", "output", "classifier"), ["classifier"]),
        (("head", "fc", "body"), ["head"]),
        (("conv", "fc", "out"), ["out"]),
        (("fc", "body", "end"), ["end"]),
        (("conv1", "layer1", "fc"), ["fc"]),  # ResNet
        (("git", "output"), ["output"]),  # GitForCausalLM
        (("stem", "head", "fc"), ["head", "fc"]),  # SelecSLS
        (("body", "head", "head_dist"), ["head", "head_dist"]),  # distilled DeiT
        (("backbone", "classifier", "aux_classifier"), ["classifier", "aux_classifier"]),  # FCN
        (("transformer", "lm_head", "multiple_choice_head"), ["lm_head", "multiple_choice_head"]),  # GPT-2
        (("body", "policy", "value"), ["value"]),
    ],
    ids=str,
)
def test_ambiguous_names_count_as_outputs_only_at_the_end(names: tuple[str, ...], outputs: list[str]) -> None:
    assert output_layers(layers(*names)) == set(outputs)


def test_a_base_model_loses_its_last_layer_unless_nothing_is_excluded() -> None:
    model = nn.Transformer(4, 2, 1, 1, 8, batch_first=True)
    last = "decoder.layers.0.linear2.weight"
    assert last not in muon_parameter_groups(model)[0]["param_names"]
    assert last in muon_parameter_groups(model, exclude=())[0]["param_names"]
    without = layers("body", "end")
    without.add_module("head", nn.Identity())
    assert output_layers(without) == {"end"}


def test_a_second_head_under_another_name_is_left_out_by_exclude() -> None:
    chosen = muon_parameter_groups(layers("body", "policy", "value"), exclude="policy")[0]["param_names"]
    assert chosen == ["body.weight"]


def test_a_model_without_layers_has_no_outputs() -> None:
    assert output_layers(nn.Embedding(3, 3)) == set()
