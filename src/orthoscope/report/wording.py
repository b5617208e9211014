"""How the values of a document read: numbers, shapes, names of symptoms and networks."""

import math
import unicodedata
from collections.abc import Iterable, Sequence

from orthoscope.findings import Symptom
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


def shortened(text: str, length: int) -> str:
    """Both ends of a long name: the block is named at its beginning, the part at its end."""
    if len(text) <= length:
        return text
    head = length // 2
    return f"{text[:head]}…{text[len(text) - (length - head - 1) :]}"


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


def signed(value: Number | None, decimals: int = 3) -> str:
    """`+0.002`: a number whose sign is half of what it says."""
    return f"{'+' if value is not None and value > 0 else ''}{fixed(value, decimals)}"


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


def factor(growth: Number | None) -> str:
    """Return e-folds as the factor they are: `×1.05`, `×1.3`, `×20,000`, `×10⁻¹²`.

    From 10⁻³ to 10⁶ it has two significant digits, or three next to 1; beyond, it is a power of ten. The page follows
    the same rule: tests/report/factors.json has cases for both.
    """
    return UNDEFINED if growth is None else f"×{_factor_digits(growth)}"


def _factor_digits(growth: Number) -> str:
    power = growth / math.log(10)
    if not -3 <= power <= 6:
        return f"10{str(round(power)).translate(_RAISED)}"
    value = math.exp(growth)
    digits = f"{value:#.{3 if abs(value - 1) < 0.1 else 2}g}"
    return digits if float(digits) < 10 else f"{float(digits):,.0f}"


def is_growth(unit: str | None) -> bool:
    """Whether a number of this unit is a natural logarithm that is read as a factor."""
    return str(unit).startswith("e-folds")


def written(quantity: Quantity, value: Number | None, possible: Number | None = None) -> str:
    """Return a number as its quantity is written; a rank with what is possible, as `12/64`."""
    if quantity.written == "rank":
        return rank(value) if value is None or possible is None else f"{rank(value)}/{possible}"
    if quantity.written == "factor":
        return factor(value)
    return {"fixed": fixed, "signed": signed, "scientific": number}[quantity.written](value, quantity.decimals)


def symptom_words(symptoms: Iterable[Symptom]) -> str:
    """Return symptoms in the words of the field, each once."""
    return ", ".join(symptom.words for symptom in dict.fromkeys(symptoms))


def gradient_growth(document: DiagnosisDocument) -> str:
    """Return `fitted gradient growth ×20,000 from output to input, ×1.05 (± 1 s.e.: 1.03 to 1.07) per weight layer`."""
    value, error = document.slope.value, document.slope.standard_error
    if value is None:
        return "gradient growth not measured"
    low, high = (_factor_digits(value + sign * (error or 0.0)) for sign in (-1, 1))
    interval = "" if low == high else f" (± 1 s.e.: {low} to {high})"
    whole = factor(whole_growth(document))
    return f"fitted gradient growth {whole} from output to input, {factor(value)}{interval} per weight layer"


def whole_growth(document: DiagnosisDocument) -> Number | None:
    """The logarithm by which the gradient grows from the last weight layer to the first, along the fitted line."""
    value = document.slope.value
    return None if value is None else value * max(0, document.slope.layers - 1)
