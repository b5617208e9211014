"""Reads `name(depth=50, activation=relu)`: a name and keyword arguments, never evaluated."""

import ast
import re
from typing import Any

from orthoscope.models.targets.target import TargetError

_RANGE = re.compile(r"(?<![\w.])(\d+\.\.\d+)(?![\w.])")


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the arguments; values are Python literals, bare words (dashes allowed) and `1..500` are strings."""
    name, bracket, rest = text.strip().partition("(")
    if not bracket:
        return name, {}
    if not rest.endswith(")"):
        raise TargetError(f"{text!r} has no closing bracket: write {name}(argument=value, ...)")
    try:
        call = ast.parse("call(" + _RANGE.sub(r"'\1'", rest), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise TargetError(f"{text!r} cannot be read: write {name}(argument=value, ...)") from error
    if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
        raise TargetError(f"{text!r} has an argument without a name: write {name}(argument=value, ...)")
    names = [keyword.arg for keyword in call.keywords]
    repeated = next((argument for argument in names if names.count(argument) > 1), None)
    if repeated is not None:
        raise TargetError(f"{text!r} has the argument {repeated!r} more than once")
    return name.strip(), {str(keyword.arg): _value(keyword.value, text) for keyword in call.keywords}


def _value(node: ast.expr, text: str) -> Any:
    word = _bare_word(node)
    if word is not None:
        return word
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        given = ast.unparse(node)
        raise TargetError(
            f"{given!r} in {text!r} is computed, but nothing is evaluated here: give a number or a word"
        ) from error


def _bare_word(node: ast.expr) -> str | None:
    """`relu` is a name and `batch-uncentred` a difference of names to Python: both are words here."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        left, right = _bare_word(node.left), _bare_word(node.right)
        return None if left is None or right is None else f"{left}-{right}"
    return None
