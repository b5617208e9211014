"""timm and transformers by name: small ones run, too large ones are refused, wrong names get help."""

import sys

import pytest
import torch

from orthoscope.models import Target, TargetError, resolve
from orthoscope.models.targets import target as memory
from orthoscope.models.targets.resolve import batch_for

LLAMA = "hf:llama(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, vocab_size=50)"
T5 = "hf:t5(d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, vocab_size=50)"
DEIT = "hf:deit(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=32)"
VIT = "hf:vit(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=32)"
WHISPER = (
    "hf:whisper(d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32,"
    " encoder_attention_heads=2, decoder_attention_heads=2, max_source_positions=10, vocab_size=60,"
    " pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)"
)
TIMM = "timm:test_resnet"


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def call(target: Target, samples: int = 2) -> torch.nn.Module:
    model = target.build(seeded(0)).eval()
    batch = target.batch(samples, seeded(1))
    with torch.no_grad():
        output = model(**batch) if isinstance(batch, dict) else model(batch)
    logits = output if isinstance(output, torch.Tensor) else output.logits
    assert logits.shape[0] == samples
    assert logits.isfinite().all()
    return model


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (LLAMA, {"input_ids": (2, 32)}),
        (T5, {"input_ids": (2, 32), "decoder_input_ids": (2, 32)}),
        (VIT, {"pixel_values": (2, 3, 32, 32)}),
        (DEIT, {"pixel_values": (2, 3, 32, 32)}),
        (WHISPER, {"input_features": (2, 80, 20), "decoder_input_ids": (2, 32)}),
    ],
)
def test_transformers_run_from_their_configuration(text: str, inputs: dict[str, tuple[int, ...]]) -> None:
    target = resolve(text)
    model = call(target)
    assert {name: tuple(value.shape) for name, value in target.batch(2, seeded(0)).items()} == inputs
    guessed = batch_for(text, model)(2, seeded(0))
    assert {name: tuple(value.shape) for name, value in guessed.items()} == inputs


@pytest.mark.slow
def test_timm_models_get_images_of_their_own_size() -> None:
    target = resolve(TIMM)
    model = call(target)
    assert target.batch(2).shape == batch_for(TIMM, model)(2).shape == (2, 3, 160, 160)
    smaller = resolve("timm:test_vit(img_size=64, in_chans=1, num_classes=3)")
    assert smaller.batch(2).shape == (2, 1, 64, 64)
    call(smaller)


@pytest.mark.parametrize("text", [TIMM, LLAMA])
def test_a_generator_decides_the_weights_of_a_zoo_model(text: str) -> None:
    target = resolve(text)
    before = torch.get_rng_state()
    models = [target.build(seeded(seed)) for seed in (0, 0, 1)]
    assert torch.equal(before, torch.get_rng_state())
    first, again, other = (torch.cat([p.detach().flatten() for p in m.parameters()]) for m in models)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timm:resnet81", "timm has no model 'resnet81': did you mean resnet"),
        ("timm:", "timm has no model ''"),
        ("timm:test_resnet(pretrained=True)", "asks for pretrained weights"),
        ("timm:test_resnet(color=red)", "raised TypeError: .*color"),
        ("hf:gpt22", "transformers has no model type 'gpt22' .*: did you mean .*gpt2"),
        (
            "hf:llama(hiden_size=64)",
            "the configuration of llama has no 'hiden_size': did you mean hidden_size",
        ),
        ("hf:llama(hidden_size=wide, num_hidden_layers=1)", "'hf:llama.* raised "),
        ("hf:llama(64)", "argument without a name"),
    ],
)
def test_every_mistake_about_the_zoo_is_one_sentence(text: str, message: str) -> None:
    with pytest.raises(TargetError, match=message) as caught:
        resolve(text).build(None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [TIMM, LLAMA])
def test_a_model_that_does_not_fit_is_refused_before_it_is_built(text, monkeypatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    with pytest.raises(TargetError, match=r"billion parameters, whose weights and gradients need .* available"):
        resolve(text).build(None)


def test_the_remedy_for_a_large_language_model_is_its_configuration(monkeypatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 8 * 2**30)
    with pytest.raises(TargetError, match=r"46.7 billion parameters.*hf:mixtral\(hidden_size=64, num_hidden"):
        resolve("hf:mixtral").build(None)


def test_available_memory_is_known_here_and_sensible() -> None:
    available = memory.available_memory()
    assert available is None or 2**20 < available < 2**50


@pytest.mark.parametrize(("text", "package"), [("timm:resnet18", "timm"), ("hf:gpt2", "transformers")])
def test_a_zoo_that_is_not_installed_says_how_to_install_it(text, package, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TargetError, match=rf'needs {package}: pip install "orthoscope\[zoo\]"'):
        resolve(text)
