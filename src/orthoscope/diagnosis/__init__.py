"""From a recording to a verdict: what was found, where it begins, how sure that is; and what theory expects."""

from orthoscope.diagnosis.diagnosis import Diagnosis, diagnose
from orthoscope.diagnosis.forecast import Forecast, predict
from orthoscope.diagnosis.rules import RULES, Rule

__all__ = ["RULES", "Diagnosis", "Forecast", "Rule", "diagnose", "predict"]
