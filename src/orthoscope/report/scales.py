"""From data to pixels: linear and logarithmic axes with ticks that people would choose."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

_MOST_TICKS = 5


@dataclass(frozen=True)
class Scale:
    """Maps `low`..`high` to pixels `start`..`end`; a logarithmic one undefined (None) at zero and below."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float | None) -> float | None:
        if value is None or not math.isfinite(value) or (self.logarithmic and value <= 0):
            return None
        low, high, at = (self._place(self.low), self._place(self.high), self._place(value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        return decades(self.low, self.high) if self.logarithmic else round_steps(self.low, self.high)

    def _place(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value


def round_steps(low: float, high: float) -> list[float]:
    """At most six multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten, thinned to at most six."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first) / _MOST_TICKS))
    return [10.0**exponent for exponent in range(first, last + 1, step)]


def whole_decades(values: Iterable[float | None]) -> tuple[float, float]:
    """The powers of ten around the positive values; one decade if there are none."""
    # 300 decades are the float's own limit; the outermost ones would overflow when a decade is added.
    exponents = [
        math.log10(value) for value in values if value is not None and value > 0 and math.isfinite(value)
    ]
    low = max(-300, math.floor(min(exponents, default=0)))
    high = min(300, math.ceil(max(exponents, default=1)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def tick_label(value: float) -> str:
    """`0.5`, `20`, `10⁻⁶`."""
    if value == 0:
        return "0"
    exponent = math.log10(abs(value))
    if exponent == round(exponent) and not -3 < exponent < 4:
        return "10" + str(round(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:.4g}".replace("-", "−")
