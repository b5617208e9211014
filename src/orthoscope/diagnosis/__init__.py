"""From a recording to a verdict: what was found, where it begins, how certain that is; and what theory predicts."""

from orthoscope.diagnosis.alignment import Alignment, align
from orthoscope.diagnosis.diagnosis import Diagnosis, diagnose
from orthoscope.diagnosis.forecast import Forecast, predict
from orthoscope.diagnosis.rules import RULES, Rule

__all__ = ["RULES", "Alignment", "Diagnosis", "Forecast", "Rule", "align", "diagnose", "predict"]
