"""What a user meets who gives the wrong kind of thing, without the type checks that tests run under."""

import json
import subprocess
import sys

import pytest

CALLS = {
    "orthoscope.prescribe(model)": "prescriptions follow from a diagnosis, got a Linear: call diagnose first",
    "orthoscope.init.initialize_(model.weight, 'orthogonal')": "a network or a layer is initialized, got a Parameter",
    "orthoscope.init.iterative_(model.weight, model.weight)": "a network or a layer is initialized, got a Parameter",
    "orthoscope.init.lsuv_(model.weight, model.weight)": "a network or a layer is initialized, got a Parameter",
    "orthoscope.confirm(model.weight, batch=model.weight)": "a network is trained, got a Parameter",
    "orthoscope.optim.clip_adaptively_(optimizer)": "expected a model or parameters, got SGD: pass model.parameters()",
    "orthoscope.optim.clip_adaptively_(optimizer.param_groups)": (
        "expected parameters, got dict among them: pass model.parameters()"
    ),
}
PROGRAM = """
import json, torch, orthoscope
import orthoscope.init, orthoscope.optim
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
said = {}
for call in CALLS:
    try:
        eval(call)
    except ValueError as error:
        said[call] = str(error)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    program = f"CALLS = {list(CALLS)}\n{PROGRAM}"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    answers: dict[str, str] = json.loads(found.stdout)
    return answers


@pytest.mark.parametrize("call", CALLS)
def test_the_wrong_kind_of_thing_is_refused_in_one_sentence(call: str, said: dict[str, str]) -> None:
    assert said[call] == CALLS[call]
