"""The server as programs see it: what it refuses, what it answers, and that it ends."""

import json

import pytest

from live.explorer import exploring
from orthoscope.diagnosis import predict
from orthoscope.live.server import _socket


@pytest.fixture(scope="module")
def explorer():
    with exploring() as running:
        yield running


def test_the_address_is_of_this_machine_and_holds_a_long_secret(explorer):
    assert explorer.url.startswith("http://127.0.0.1:")
    assert len(explorer.token) >= 32


def test_only_the_right_request_is_answered(explorer):
    status, headers, body = explorer.ask(f"/?token={explorer.token}", X_Orthoscope_Token=None)
    assert status == 200
    assert "orthoscope-data" in body
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "connect-src 'self'" in body
    assert explorer.ask("/", X_Orthoscope_Token=None)[0] == 403
    assert explorer.ask("/api/theory?target=mlp(depth=2)", X_Orthoscope_Token="wrong")[0] == 403
    assert explorer.ask("/", Host="evil.example")[0] == 421
    assert explorer.ask("/api/diagnose", "POST", "{}", Origin="http://evil.example")[0] == 403
    assert explorer.ask("/api/diagnose", "POST", "x" * 20_000)[0] == 413
    assert explorer.ask("/etc/passwd")[0] == 404


@pytest.mark.parametrize(
    "body", ["", "[]", "{", '{"target": 1}', '{"target": "mlp()", "samples": 0}', '{"target": "mlp()", "seed": -1}']
)
def test_a_bad_request_is_one_sentence(explorer, body):
    status, _, answer = explorer.ask("/api/diagnose", "POST", body)
    assert status == 400
    assert json.loads(answer)["error"]


@pytest.mark.slow
def test_curves_are_those_of_a_prediction(explorer):
    status, _, body = explorer.ask("/api/theory?target=mlp(depth=6,activation=tanh,width=32)&samples=8&overlap=0.25")
    assert status == 200
    parts = [json.loads(line) for line in body.splitlines()]
    rows = [row for part in parts for row in part.get("rows", [])]
    expected = predict("mlp(depth=6, activation=tanh, width=32)", samples=8, overlap=0.25).document()["depths"]
    assert [row["depth"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for row, right in zip(rows, expected, strict=True):
        for name in ("overlap", "gap", "rms", "effective_rank"):
            assert row[name] == pytest.approx(right[name], rel=1e-9)
    end, reach = parts[-2]["end"], parts[-1]["reach"]
    assert end["verdict"] == expected[-1]["verdict"]
    assert len(end["log_gradients"]) == 6
    assert reach["deepest"] >= 6


@pytest.mark.parametrize(
    ("target", "words"),
    [("resnet()", "no prediction for resnet"), ("mlp(depth=301)", "at most 300"), ("mlp(norm=odd,depth=3)", "norm")],
)
def test_what_theory_does_not_cover_is_said(explorer, target, words):
    body = explorer.ask(f"/api/theory?target={target}")[2]
    assert words in json.loads(body.splitlines()[-1])["error"]


@pytest.mark.slow
def test_a_diagnosis_comes_as_an_event_and_a_failure_too(explorer):
    for target, kind in (("mlp(depth=3, width=16)", "document"), ("no.such.module:net", "failure")):
        events = explorer.events()
        assert explorer.ask("/api/diagnose", "POST", json.dumps({"target": target}))[0] == 202
        found, content = next((name, said) for name, said in events if name != "progress")
        assert found == kind
        events.close()
    assert "no.such.module" in content["error"]


@pytest.mark.slow
def test_ctrl_c_ends_it_with_a_page_listening(tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text('{"step": 1, "scalars": {"loss": 1.0}}\n')
    with exploring("--follow", str(log)) as running:
        events = running.events()
        assert next(events)[0] == "history"
        with log.open("a") as file:
            file.write('{"step": 2, "scalars": {"loss": 0.5}}\n')
        assert next(said["step"] for kind, said in events if kind == "record" and said["step"] == 2) == 2
        assert running.interrupt() == 0
        assert list(events) == []
        assert "Traceback" not in running.process.stderr.read()


def test_a_port_that_is_taken_is_one_sentence(explorer):
    with pytest.raises(ValueError, match=r"cannot listen on 127\.0\.0\.1"):
        _socket("127.0.0.1", int(explorer.address.split(":")[1]))
    with pytest.raises(ValueError, match="0 to 65535"):
        _socket("127.0.0.1", 70_000)
