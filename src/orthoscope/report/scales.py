"""From data to pixels: linear and logarithmic axes with ticks that people would choose."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from orthoscope.report.reading import Number

_MOST_TICKS = 5
_MARGIN = 0.1  # decades: a constant 1 belongs in the middle, not on the border


@dataclass(frozen=True)
class Scale:
    """Maps `low`..`high` to pixels `start`..`end`; a logarithmic one undefined (None) at zero and below."""

    low: Number
    high: Number
    start: Number
    end: Number
    logarithmic: bool = False

    def __call__(self, value: Number | None) -> Number | None:
        if value is None or not math.isfinite(value) or (self.logarithmic and value <= 0):
            return None
        low, high, at = (self._place(self.low), self._place(self.high), self._place(value))
        pixel = self.start + (at - low) / (high - low) * (self.end - self.start)
        return pixel if math.isfinite(pixel) else None

    def ticks(self) -> list[Number]:
        return decades(self.low, self.high) if self.logarithmic else round_steps(self.low, self.high)

    def _place(self, value: Number) -> Number:
        return math.log10(value) if self.logarithmic else value


def round_steps(low: Number, high: Number) -> list[Number]:
    """At most six multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def decades(low: Number, high: Number) -> list[Number]:
    """Powers of ten, thinned to at most six."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first) / _MOST_TICKS))
    return [10.0**exponent for exponent in range(first, last + 1, step)]


def whole_decades(values: Iterable[Number | None]) -> tuple[Number, Number]:
    """The powers of ten around the positive values with a margin; 1 to 10 if there are none."""
    exponents = [math.log10(value) for value in values if value is not None and 0 < value < math.inf]
    # 10⁻³²³ and 10³⁰⁸ are the outermost decades that a float can hold.
    low = min(307, max(-323, math.floor(min(exponents, default=_MARGIN) - _MARGIN)))
    high = min(308, math.ceil(max(exponents, default=1 - _MARGIN) + _MARGIN))
    return 10.0**low, 10.0 ** max(high, low + 1)


def tick_label(value: Number) -> str:
    """`0.5`, `20`, `10⁻⁶`."""
    if value == 0:
        return "0"
    exponent = math.log10(abs(value))
    if abs(exponent - round(exponent)) < 1e-9 and not -3 < exponent < 4:
        return "10" + str(round(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:.4g}".replace("-", "−")
