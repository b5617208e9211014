"""Every public name has a docstring that names each of its arguments, and its example runs."""

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import orthoscope

PACKAGES = (
    *("activations", "chains", "data", "diagnosis", "findings", "init", "layers", "linalg", "manifolds", "metrics"),
    *("models", "optim", "prescriptions", "probe", "sweep", "theory", "training", "watcher"),
)
# Their packages are optional, and their documentation is read from the source.
OPTIONAL = ("LightningCallback", "TrainerCallback")
ENTRY_POINTS = (
    *("align", "compare", "confirm", "diagnose", "fix", "predict", "prescribe", "watch"),
    *("layers.orthogonal", "linalg.orthogonalize", "linalg.polar_factor", "optim.Muon", "probe.record"),
    *("init.initialize_", "models.resolve", "theory.kernel_map"),
)


def public() -> Iterator[tuple[str, Any]]:
    """Functions and classes of `__all__`, each once, by their shortest name."""
    seen = set()
    for package in ("", *PACKAGES):
        module = importlib.import_module(f"orthoscope.{package}".rstrip("."))
        for name in getattr(module, "__all__", ()):
            if name in OPTIONAL:
                continue
            value = getattr(module, name)
            is_ours = getattr(value, "__module__", "").startswith("orthoscope.")
            if is_ours and (inspect.isfunction(value) or inspect.isclass(value)) and id(value) not in seen:
                seen.add(id(value))
                yield f"{package}.{name}".lstrip("."), value


PUBLIC = dict(public())


def described(docstring: str) -> set[str]:
    """The names that the sections `Args:` and `Attributes:` of a docstring describe."""
    sections = re.findall(r"^(?:Args|Attributes):\n((?:    .*\n|\n)+)", inspect.cleandoc(docstring) + "\n", re.M)
    return {name for section in sections for name in re.findall(r"^    \*{0,2}(\w+): \S", section, re.M)}


def parameters(value: Any) -> set[str]:
    """Names of the arguments of a function or constructor; none of enumerations and of plain exceptions."""
    is_plain = inspect.isclass(value) and issubclass(value, (BaseException, str)) and "__init__" not in vars(value)
    return set() if is_plain else set(inspect.signature(value).parameters)


def undocumented(name: str, value: Any) -> set[str]:
    """Parameters that neither the docstring nor that of the package describes."""
    package = importlib.import_module(f"orthoscope.{name.rpartition('.')[0]}".rstrip("."))
    texts = (value.__doc__, package.__doc__, value.__init__.__doc__ if inspect.isclass(value) else None)
    return parameters(value).difference(*(described(text or "") for text in texts))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_describes_each_of_its_parameters(name: str) -> None:
    value = PUBLIC[name]
    summary = (value.__doc__ or "").partition("\n")[0]
    assert summary, "a public name has a docstring of its own"
    assert not re.fullmatch(r"\w+\(.*\)", summary), "dataclasses repeat their signature if they have no docstring"
    assert undocumented(name, value) == set()


def test_a_parameter_without_a_description_is_found() -> None:
    def function(documented: int, forgotten: int) -> None:
        """Do nothing.

        Args:
            documented: A number.
        """

    assert undocumented("function", function) == {"forgotten"}


def test_a_package_describes_only_arguments_that_its_functions_have() -> None:
    for package in PACKAGES:
        glossary = described(importlib.import_module(f"orthoscope.{package}").__doc__ or "")
        members = [value for name, value in PUBLIC.items() if name.startswith(f"{package}.")]
        used = set().union(*map(parameters, members))
        assert glossary <= used, f"orthoscope.{package} describes arguments that none of its functions has"


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if ">>> " in (value.__doc__ or "")])
def test_examples_run_and_print_what_they_say(name: str) -> None:
    names = {"orthoscope": orthoscope, "torch": torch, "nn": nn}
    example = doctest.DocTestParser().get_doctest(PUBLIC[name].__doc__, names, name, None, None)
    torch.manual_seed(0)
    messages: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=messages.append)
    assert result.failed == 0, "".join(messages)


def test_the_main_entry_points_have_an_example() -> None:
    assert [name for name in ENTRY_POINTS if ">>> " not in (PUBLIC[name].__doc__ or "")] == []
