import json

import jsonschema
from torch import nn, randn

from orthoscope import report
from orthoscope.diagnosis import diagnose


def test_a_real_diagnosis_follows_the_schema_and_has_every_view(tmp_path):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    real = diagnose(model, randn(12, 8)).document()
    validator = jsonschema.Draft202012Validator(report.schema())
    validator.validate(real)
    validator.validate(json.loads(report.report_json([real])))
    report.write(tmp_path / "real.html", [real])
    assert real["verdict"] in report.text(real)
