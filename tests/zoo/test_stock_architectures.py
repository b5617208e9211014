"""Twelve stock architectures at random initialization: diagnosed without error, every module accounted for."""

import json

import jsonschema
import pytest
import torch

from orthoscope import diagnose, report
from orthoscope.models import resolve
from orthoscope.probe.hooks import observable_modules

# Third parties warn at import and at construction; that is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

TINY = "vocab_size=200, num_attention_heads=2, num_hidden_layers=3, hidden_size=32"
ARCHITECTURES = {
    "timm:resnet18": 8,
    "timm:vgg11_bn": 4,
    "timm:convnext_atto": 6,
    "timm:efficientnet_b0": 6,
    "timm:vit_tiny_patch16_224": 6,
    "timm:mixer_s16_224": 4,
    "hf:gpt2(vocab_size=200, n_positions=64, n_embd=32, n_layer=3, n_head=2, bos_token_id=0, eos_token_id=0)": 8,
    f"hf:bert({TINY}, intermediate_size=64, max_position_embeddings=64)": 8,
    f"hf:llama({TINY}, num_key_value_heads=2, intermediate_size=64, max_position_embeddings=64)": 8,
    "hf:t5(vocab_size=200, d_model=32, d_kv=16, d_ff=64, num_layers=3, num_heads=2)": 8,
    "hf:mamba(vocab_size=200, hidden_size=32, state_size=8, num_hidden_layers=3)": 8,
    "hf:whisper(vocab_size=200, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, "
    "decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=50, "
    "max_target_positions=32, decoder_start_token_id=1, pad_token_id=0, bos_token_id=0, eos_token_id=0)": 8,
}


@pytest.mark.parametrize("name", ARCHITECTURES, ids=lambda name: name.split("(")[0])
def test_a_stock_architecture_is_diagnosed(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    target = resolve(name)
    model = target.build(generator)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    diagnosis = diagnose(model, target.batch(ARCHITECTURES[name], generator), name=name)

    seen = {label for layer in diagnosis.layers for label in (layer.name, *layer.also)}
    missing = set(diagnosis.recording.unobserved)
    assert seen | missing | {""} == {label for label, _ in observable_modules(model)} | {""}
    assert not seen & missing - {""}
    assert all(diagnosis.recording.unobserved.values()), "each with its reason"
    assert len(diagnosis.layers) > 15
    assert sum(layer.gradient_norm is not None for layer in diagnosis.layers) > 0.8 * len(diagnosis.layers)
    assert diagnosis.gradients is not None
    assert diagnosis.verdict != "SICK", diagnosis.summary  # people train these every day
    jsonschema.validate(json.loads(diagnosis.to_json()), report.schema())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_batch_norm_of_a_stock_resnet_has_variance_one_although_relu_is_in_place() -> None:
    model = resolve("timm:resnet18").build(torch.Generator().manual_seed(0))
    assert model.act1.inplace
    diagnosis = diagnose(model, torch.randn(16, 3, 64, 64, generator=torch.Generator().manual_seed(0)))
    first = next(layer for layer in diagnosis.layers if layer.name == "bn1")
    assert round(first.rms**2, 3) == 1.000  # mean zero; 0.34 to 0.5 is what comes after the relu
