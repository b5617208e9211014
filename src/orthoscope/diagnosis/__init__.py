"""From a recording to a verdict: what was found, where it begins, how sure that is."""

from orthoscope.diagnosis.diagnosis import Diagnosis, diagnose
from orthoscope.diagnosis.rules import RULES, Rule

__all__ = ["RULES", "Diagnosis", "Rule", "diagnose"]
