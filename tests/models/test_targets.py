"""What a user may type for a network: built-in names and their own code, right and wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from orthoscope.models import MLP, ConvNet, ResNet, Target, TargetError, Transformer, resolve
from orthoscope.models.targets import BUILTIN
from orthoscope.models.targets.target import parse_call

USER_CODE = """
import torch
from torch import nn
from sibling import WIDTH

class Nets:
    @staticmethod
    def nested():
        return nn.Linear(WIDTH, 2)

def build(width=6):
    return nn.Sequential(nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, 3))

def convolutional():
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4))

def language():
    return nn.Sequential(nn.Embedding(13, 4), nn.Linear(4, 13))

def recurrent():
    return nn.GRU(5, 4)

def bare():
    return nn.ReLU()

def broken():
    raise KeyError("depth")

def number():
    return 3

def late():
    import sibling
    return nn.Linear(sibling.WIDTH, 2)

ready = nn.Linear(8, 2)
answer = 42
"""


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package of the user's in the current directory, new for every test."""
    package = f"package_of_{tmp_path.name}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "net.py").write_text(USER_CODE)
    (tmp_path / package / "needy.py").write_text("import a_package_that_is_missing\n")
    (tmp_path / package / "leaver.py").write_text("raise SystemExit(1)\n")
    (tmp_path / "sibling.py").write_text("WIDTH = 9\n")
    (tmp_path / package / "sibling.py").write_text("WIDTH = 9\n")
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield package
    for name in set(sys.modules) - before:
        if name.startswith((package, "sibling", "orthoscope_target_")):
            del sys.modules[name]


def runs(target: Target) -> torch.Tensor:
    model = target.build(seeded(0))
    return model(target.batch(4, seeded(1)))


@pytest.mark.parametrize(
    ("text", "kind", "shape"),
    [
        ("mlp", MLP, (4, 10)),
        ("mlp(depth=3, activation=tanh, norm=batch-uncentered, gain=0.5, in_features=7)", MLP, (4, 10)),
        ("  mlp(depth=2, out_features=None, bias=True, order='activation-norm', norm=rms)  ", MLP, (4, 100)),
        ("convnet(depth=2, channels=4, in_channels=1)", ConvNet, (4, 10)),
        ("resnet(kind=1, blocks=2, width=8, image_size=4)", ResNet, (4, 10)),
        ("resnet(kind=3, blocks=(1, 1), width=4, image_size=8, skip=False)", ResNet, (4, 10)),
        ("transformer(depth=1, width=8, heads=2, vocabulary=7, length=5)", Transformer, (4, 5, 7)),
    ],
)
def test_built_in_networks_take_arguments_and_fit_their_batch(text: str, kind: type, shape: tuple) -> None:
    target = resolve(text)
    assert target.name == text.strip()
    assert isinstance(target.build(None), kind)
    assert runs(target).shape == shape


@pytest.mark.slow
def test_every_built_in_network_accepts_its_own_defaults() -> None:
    with torch.device("meta"):
        for name in BUILTIN:
            assert isinstance(resolve(name).build(None), nn.Module)
            assert resolve(f"{name}()").batch(2).shape[0] == 2


def test_bare_words_are_strings_and_literals_are_values() -> None:
    assert parse_call("f(a=relu, b=-1.5, c=None, d=(1, 2), e=batch-uncentered, f='x y', g={'h': True})") == (
        "f",
        {
            "a": "relu",
            "b": -1.5,
            "c": None,
            "d": (1, 2),
            "e": "batch-uncentered",
            "f": "x y",
            "g": {"h": True},
        },
    )


@pytest.mark.parametrize("text", ["mlp(depth=2, width=5)", "NET:build", "NET:ready"])
def test_generators_decide_and_the_global_one_is_untouched(text: str, user_code: str) -> None:
    target = resolve(text.replace("NET", f"{user_code}.net"))
    before = torch.get_rng_state()
    weights = [next(target.build(seeded(seed)).parameters()) for seed in (0, 0, 1)]
    batches = [target.batch(3, seeded(seed)) for seed in (0, 0, 1)]
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2]) == ("ready" in text)
    assert torch.equal(batches[0], batches[1])
    assert not torch.equal(batches[0], batches[2])


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("build", (4, 6)),
        ("build(width=11)", (4, 11)),
        ("Nets.nested", (4, 9)),
        ("ready", (4, 8)),
        ("late", (4, 9)),
        ("convolutional", (4, 2, 32, 32)),
        ("language", (4, 32)),
    ],
)
@pytest.mark.parametrize("form", ["{package}.net:{name}", "{package}/net.py::{name}"])
def test_user_code_is_found_and_its_batch_guessed(form: str, name: str, shape: tuple, user_code: str) -> None:
    path = list(sys.path)
    target = resolve(form.format(package=user_code, name=name))
    assert target.batch(4, seeded(0)).shape == shape
    assert runs(target).isfinite().all()
    assert sys.path == path


def test_a_module_itself_is_the_network(user_code: str) -> None:
    target = resolve(f"{user_code}.net:ready")
    assert target.build(None) is target.build(None)


@pytest.mark.parametrize(("name", "seen"), [("recurrent", "GRU"), ("bare", "no layer with weights")])
def test_a_batch_that_cannot_be_guessed_is_asked_for(name: str, seen: str, user_code: str) -> None:
    with pytest.raises(TargetError, match=f"no batch can be guessed .*{seen}.*--batch package.module:function"):
        resolve(f"{user_code}.net:{name}").batch(4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mpl(depth=3)", "is not a target: give package.module:callable, .*transformer; did you mean mlp?"),
        ("", "is not a target"),
        ("mlp(dept=3)", "mlp has no argument 'dept': choose from depth, width, in_features"),
        ("mlp(generator=3)", "mlp has no argument 'generator'"),
        ("mlp(3)", "argument without a name"),
        ("mlp(**{'depth': 3})", "argument without a name"),
        ("mlp(depth=3", "no closing bracket"),
        ("mlp(depth=)", "cannot be read"),
        ("mlp(depth=2+3)", "'2 [+] 3' in .* is an expression, which is not evaluated"),
        ("mlp(depth=__import__('os'))", "is not evaluated"),
        (
            "mlp(activation=rellu)",
            r"cannot be built: unknown activation 'rellu' \(did you mean relu\?\): choose one of",
        ),
        ("mlp(depth=0)", "cannot be built: depth is 0"),
        ("resnet(kind=4)", "unknown kind 4"),
        ("no_such_package.net:build", "there is no module 'no_such_package' .*: install it, or run in"),
        ("PKG.no_such_module:build", "there is no module 'package_of_.*no_such_module'"),
        ("PKG.net:biuld", "has no 'biuld' .*: it offers .*build"),
        ("PKG.net:Nets.missing", "'Nets' has no 'missing'"),
        ("PKG.net:answer", "is an object of type int: name a function or class"),
        ("PKG.net:number", "returned an object of type int: it must return an nn.Module"),
        ("PKG.net:broken", "raised KeyError: 'depth'"),
        ("PKG.net:build(depth=2)", "raised TypeError: .*unexpected keyword argument 'depth'"),
        ("PKG.net:", "is incomplete"),
        (":build", "is incomplete"),
        ("PKG.needy:build", "raised ModuleNotFoundError: No module named 'a_package_that_is_missing'"),
        ("PKG.leaver:build", "raised SystemExit: 1"),
        ("PKG/nothing.py::build", "there is no file 'package_of_.*/nothing.py'"),
        ("PKG/net.py::biuld", "'net' has no 'biuld'"),
        ("PKG/leaver.py::build", "raised SystemExit"),
    ],
)
def test_every_mistake_is_one_sentence(text: str, message: str, user_code: str) -> None:
    with pytest.raises(TargetError, match=message) as caught:
        resolve(text.replace("PKG", user_code)).build(None)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_python_is_refused(user_code: str) -> None:
    Path("notes.txt").write_text("not code")
    with pytest.raises(TargetError, match="is not a Python file"):
        resolve("notes.txt::build")


@pytest.mark.slow
def test_importing_targets_imports_no_zoo() -> None:
    code = "import sys, orthoscope.models.targets; print({'timm', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
