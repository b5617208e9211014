import asyncio
import json

import pytest

from orthoscope.live._app import Exploration
from orthoscope.live._events import Follower
from report.handmade import document


def line(step, **content):
    return json.dumps({"step": step, "name": "net", "scalars": {"worst_gap": step / 10}, **content}) + "\n"


def test_whole_lines_are_read_once_and_halves_wait(tmp_path):
    log = tmp_path / "run.jsonl"
    follower = Follower(log)
    assert follower.new() == []  # not there yet
    log.write_text(line(1) + line(2)[:10])
    assert [record["step"] for record in follower.new()] == [1]
    with log.open("a") as file:
        file.write(line(2)[10:] + line(3, diagnosis=document(name="third")))
    assert [record["step"] for record in follower.new()] == [2, 3]
    assert follower.new() == []
    assert [row["scalars"]["worst_gap"] for row in follower.history] == [0.1, 0.2, 0.3]
    assert follower.latest["name"] == "third"
    assert "diagnosis" not in follower.history[-1]
    assert follower.history[-1]["verdict"] == "HEALTHY"


def test_what_is_no_record_is_passed_over(tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text('not json\n[1]\n{"a": 1}\n{"step": "x"}\n' + line(7) + '{"step": 8, "scalars": {"loss": NaN}}\n')
    follower = Follower(log)
    assert [record["step"] for record in follower.new()] == [7, 8]
    json.dumps(follower.history, allow_nan=False)


def test_numbers_beyond_the_largest_are_null_and_other_shapes_are_passed_over(tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text(
        line(1, diagnosis=document(gap=77.25)).replace("77.25", "-1e999").replace('gap": 0.1', 'gap": 1e999')
        + '{"step": 2, "scalars": [1]}\n{"step": 3, "diagnosis": "HEALTHY"}\n'
        + '{"step": 4, "x": ' + "[" * 200_000 + "\n"
    )  # fmt: skip
    follower = Follower(log)
    assert [record["step"] for record in follower.new()] == [1]
    assert follower.history[0]["scalars"] == {}
    assert follower.latest["gap"] is None


def test_a_log_that_cannot_be_read_is_said_once_and_followed_when_it_can(tmp_path):
    log = tmp_path / "run.jsonl"
    exploration = Exploration("token", str(log))
    told = []
    exploration.hub.tell = lambda kind, content: told.append((kind, json.loads(json.dumps(content))))

    def look():
        asyncio.run(exploration._look(exploration._follower))

    log.mkdir()  # stat succeeds and open does not, also for root
    look()
    look()
    log.rmdir()
    log.write_text(line(1))
    look()
    with log.open("a") as file:
        file.write(line(2))
    look()
    assert told[0] == ("unreadable", {"error": "cannot read run.jsonl: Is a directory"})
    assert [kind for kind, _ in told] == ["unreadable", "history", "record"]
    assert [record["step"] for record in told[1][1]["records"]] == [1]
    assert told[2][1]["step"] == 2


def test_a_diagnosis_of_another_version_is_left_out_and_said_once(tmp_path):
    log = tmp_path / "run.jsonl"
    older = document(schema="orthoscope.diagnosis/2")
    log.write_text(line(1, diagnosis=older) + line(2, diagnosis=document(verdict="FINE")))
    exploration = Exploration("token", str(log))
    told = []
    exploration.hub.tell = lambda kind, content: told.append((kind, content))
    asyncio.run(exploration._look(exploration._follower))
    with log.open("a") as file:
        file.write(line(3))
    asyncio.run(exploration._look(exploration._follower))
    assert [kind for kind, _ in told] == ["unreadable", "record", "record", "record"]
    assert "a diagnosis in run.jsonl cannot be shown: " in told[0][1]["error"]
    assert [content["diagnosis"] for kind, content in told if kind == "record"] == [None] * 3
    assert exploration._history()["diagnosis"] is None


def test_a_log_that_begins_anew_is_read_anew(tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text(line(1) + line(2))
    follower = Follower(log)
    follower.new()
    log.write_text(line(1))
    assert [record["step"] for record in follower.new()] == [1]
    assert len(follower.history) == 1


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        Follower(tmp_path)
