"""Activations that are functions called inside a `forward`, such as `F.relu(x)`: found in the source, by line.

They cannot be replaced from outside: `FunctionCall.advice` is the line to change. Of classes of torch, and of those
without source, as in a console, nothing is known.
"""

import ast
import builtins
import inspect
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TypeAlias
from weakref import WeakKeyDictionary

from torch import nn

# By name of the function, the class of the module that computes the same.
MODULES: dict[str, type[nn.Module]] = {
    "celu": nn.CELU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "hardsigmoid": nn.Hardsigmoid,
    "hardswish": nn.Hardswish,
    "hardtanh": nn.Hardtanh,
    "leaky_relu": nn.LeakyReLU,
    "mish": nn.Mish,
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "selu": nn.SELU,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "softsign": nn.Softsign,
    "tanh": nn.Tanh,
}


_ADDING = ("add", "add_", "addcmul", "einsum", "lerp", "stack", "sum", "super")


@dataclass(frozen=True)
class FunctionCall:
    """One call of an activation function, or of softmax, in the source of a module.

    Attributes:
        function: Its name.
        owner: Class in whose `forward` it is.
        place: File and line.
        code: The call.
        returned: Whether the module returns it.
        instances: How many modules of this class the network has.
    """

    function: str
    owner: str
    place: str
    code: str
    returned: bool
    instances: int = 1

    @property
    def advice(self) -> str:
        """What to write instead, so that the activation can be replaced."""
        made = MODULES[self.function].__name__
        new = f"self.{self.function} = torch.nn.{made}() in __init__, and self.{self.function}(…) here"
        return f"{self.code}  # {self.place}: {new}"


def function_calls(model: nn.Module) -> Iterator[FunctionCall]:
    """Activation functions that are called in the methods of the modules of a network, once for every class."""
    for kind, count in Counter(type(module) for module in model.modules()).items():
        yield from (replace(call, instances=count) for call in _calls(kind) if call.function in MODULES)


def returned_softmax(model: nn.Module) -> FunctionCall | None:
    """The call of softmax that the network itself returns, if it does."""
    return next((call for call in _calls(type(model)) if call.function == "softmax" and call.returned), None)


def may_add(kind: type) -> bool:
    """Whether a class of modules may add tensors, as a skip connection does; True if its source is not known."""
    methods = _methods(kind)
    if methods is None:
        return True
    for method, _ in methods:
        # What a loop or an assignment names, as in `for block in self.blocks`, is a module with a source of its own.
        local = {node.id for node in ast.walk(method) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for node in ast.walk(method):
            if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Add):
                return True
            if isinstance(node, ast.Call) and (_name_of(node.func) in _ADDING or _is_unknown(node.func, local)):
                return True
    return False


def _is_unknown(function: ast.expr, local: set[str]) -> bool:
    """Whether a function is called by a bare name that is not one of Python: its source may add."""
    return isinstance(function, ast.Name) and not (
        hasattr(builtins, function.id) or function.id in MODULES or function.id in local
    )


def _calls(kind: type) -> tuple[FunctionCall, ...]:
    found = []
    for method, file in _methods(kind) or ():
        returned = {id(node.value) for node in ast.walk(method) if isinstance(node, ast.Return)}
        for node in ast.walk(method):
            if not isinstance(node, ast.Call):
                continue
            name = _name_of(node.func).removesuffix("_")
            if name in MODULES or name == "softmax":
                place = f"{file}, line {node.lineno}"
                found.append(FunctionCall(name, kind.__name__, place, ast.unparse(node), id(node) in returned))
    return tuple(found)


def _name_of(function: ast.expr) -> str:
    """The name of a function or method that is called; "" for a submodule, `self.relu(x)`."""
    if isinstance(function, ast.Name):
        return function.id
    if not isinstance(function, ast.Attribute):
        return ""
    inside = isinstance(function.value, ast.Name) and function.value.id == "self"
    return "" if inside else function.attr


Methods: TypeAlias = tuple[tuple[ast.FunctionDef, str], ...]
_READ: WeakKeyDictionary[type, Methods | None] = WeakKeyDictionary()


def _methods(kind: type) -> Methods | None:
    """The methods of a class and its bases, but `__init__`, with the name of the file; those of torch's have none.

    None if the source of one is not known.
    """
    if kind not in _READ:
        _READ[kind] = _read(kind)
    return _READ[kind]


def _read(kind: type) -> Methods | None:
    found: list[tuple[ast.FunctionDef, str]] = []
    for base in kind.__mro__:
        if base is object or base.__module__.startswith(("torch.", "typing", "abc")):
            continue
        try:
            lines, start = inspect.getsourcelines(base)
            tree = ast.parse(textwrap.dedent("".join(lines)))
            file = PurePath(inspect.getsourcefile(base) or "").name
        except (OSError, TypeError, SyntaxError):
            return None
        ast.increment_lineno(tree, start - 1)
        body = tree.body[0].body if tree.body and isinstance(tree.body[0], ast.ClassDef) else []
        found += [(one, file) for one in body if isinstance(one, ast.FunctionDef) and one.name != "__init__"]
    return tuple(found)
