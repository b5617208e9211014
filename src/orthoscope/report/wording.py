"""How the values of a document read: numbers, shapes, names.

Lines of a terminal: a label with its sentence beside it, a verdict in its color.
"""

import math
import unicodedata
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from orthoscope.findings import Verdict
from orthoscope.report.document import DiagnosisDocument, Number, Quantity

UNDEFINED = "–"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LONGEST_TITLE = 120  # letters; a name may be a whole configuration
# Could reorder the text around a name: https://trojansource.codes
_BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: object) -> str:
    """Text that cannot steer a terminal or break an encoding: control characters and surrogates replaced."""
    return "".join(
        "\ufffd" if unicodedata.category(letter) in ("Cc", "Cs") or letter in _BIDIRECTIONAL else letter
        for letter in str(text).replace("\n", " ")
    )


def number(value: Number | None, decimals: int = 2) -> str:
    """Fixed point for numbers of everyday size, `1.2e-9` for others, a dash for undefined ones."""
    if value is None:
        return UNDEFINED
    size = abs(value)
    if value != 0 and not 10**-decimals <= size < 10_000:
        digits, exponent = f"{value:.1e}".split("e")
        return f"{digits}e{int(exponent)}"
    return f"{value:.{decimals}f}" if size < 100 else f"{value:.0f}"


def significant(value: Number | None) -> str:
    """Three digits, so that a value just beyond its limit does not read as the limit."""
    return UNDEFINED if value is None else f"{value:.3g}"


def fixed(value: Number | None, decimals: int = 2) -> str:
    """For numbers that live between -1 and 1, where 1e-16 is a zero; never `-0.00`."""
    return UNDEFINED if value is None else f"{round(value, decimals) + 0.0:.{decimals}f}"


def rank(value: Number | None) -> str:
    """A rank, with one decimal below 10."""
    return UNDEFINED if value is None else f"{value:.1f}" if value < 10 else f"{value:.0f}"


def count(value: int) -> str:
    """1234567 reads 1.23M."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:.3g}{unit}" if value < 1000 * size else f"{value / size:.0f}{unit}"
    return str(value)


def shape(sizes: Sequence[int]) -> str:
    """A tensor's shape as 64×128."""
    return "×".join(str(size) for size in sizes) or "scalar"


def factor(growth: Number | None, digits: int = 2) -> str:
    """Return e-folds as the factor they are: `×1.3`, `×20,000`, `×10⁻¹²`; three digits for one weight layer."""
    return UNDEFINED if growth is None else f"×{_factor_digits(growth, digits)}"


def _factor_digits(growth: Number, digits: int) -> str:
    """The same without the sign; as `factorDigits` of the page."""
    power = growth / math.log(10)
    if not -3 <= power < 6:
        return f"10{str(round(power)).translate(_RAISED)}"
    value = math.exp(growth)
    if abs(value - 1) < 0.1:
        return f"{value:.{digits}f}"
    return f"{value:#.{digits}g}" if value < 10 else f"{float(f'{value:.2g}'):,.0f}"


def is_growth(unit: str | None) -> bool:
    """Whether a number of this unit is a natural logarithm that is read as a factor."""
    return bool(unit) and str(unit).startswith("e-folds")


def written(quantity: Quantity, value: Number | None, possible: Number | None = None) -> str:
    """Return a number as its quantity is written; a rank with what is possible, as `12/64`."""
    if quantity.written == "rank":
        return rank(value) if value is None or possible is None else f"{rank(value)}/{possible}"
    if quantity.written == "factor":
        return factor(value, quantity.decimals)
    return {"fixed": fixed, "signed": signed, "scientific": number}[quantity.written](value, quantity.decimals)


def gradient_growth(document: DiagnosisDocument) -> str:
    """Return `fitted gradient growth ×21,000 from output to input, ×1.22 (± 1 s.e.: 1.20 to 1.24) per weight layer`."""
    value, error = document.slope.value, document.slope.standard_error
    if value is None:
        return "gradient growth not measured"
    low, high = (_factor_digits(value + sign * (error or 0.0), 3) for sign in (-1, 1))
    interval = "" if error is None else f" (± 1 s.e.: {low} to {high})"
    whole = factor(whole_growth(document))
    return f"fitted gradient growth {whole} from output to input, {factor(value, 3)}{interval} per weight layer"


def whole_growth(document: DiagnosisDocument) -> Number | None:
    """The logarithm by which the gradient grows from the last weight layer to the first, along the fitted line."""
    value = document.slope.value
    return None if value is None else value * max(0, document.slope.layers - 1)


def signed(value: Number | None, decimals: int = 3) -> str:
    """`+0.002`: a number whose sign is half of what it says."""
    return f"{'+' if value is not None and value > 0 else ''}{fixed(value, decimals)}"


def rank_at_end(document: DiagnosisDocument) -> str:
    """`1.5 of 100`: effective rank over the possible one at the quoted layer."""
    layer = document.quoted
    value = None if layer is None else layer.measured("effective_rank")
    return UNDEFINED if layer is None or value is None else f"{value:.1f} of {layer.possible_rank}"


def begins(symptoms: Sequence[str]) -> str:
    """What a layer's row says when findings name it."""
    return ", ".join(symptoms) + " begins"


def shortened(text: str, length: int) -> str:
    """Both ends of a long name: the block is named at its beginning, the part at its end."""
    if len(text) <= length:
        return text
    head = length // 2
    return f"{text[:head]}…{text[len(text) - (length - head - 1) :]}"


LABEL_WIDTH = 13  # columns, with the space after it
_COLORS = {Verdict.HEALTHY: "bold green", Verdict.AT_RISK: "bold yellow", Verdict.SICK: "bold red"}


def labeled(label: str, content: Text) -> Table:
    """A label and a sentence that wraps beside it, not under it."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=LABEL_WIDTH - 2, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, "bold"), content)
    return grid


def verdict_text(verdict: str) -> Text:
    """The word in its color; it is told by the word alone as well."""
    return Text(str(verdict), _COLORS[Verdict(verdict)])
