"""From a recording to a verdict: what was found, where it begins, how sure that is; and what theory expects.

`watch` is the same question of a step: from the weights before and after it to numbers.
"""

from orthoscope.diagnosis.alignment import Alignment, align
from orthoscope.diagnosis.diagnosis import Diagnosis, diagnose
from orthoscope.diagnosis.forecast import Forecast, predict
from orthoscope.diagnosis.rules import RULES, Rule
from orthoscope.diagnosis.watch import Watch
from orthoscope.diagnosis.watching import watch

__all__ = ["RULES", "Alignment", "Diagnosis", "Forecast", "Rule", "Watch", "align", "diagnose", "predict", "watch"]
