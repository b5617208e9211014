"""The command line in a process of its own, as a user starts it, without waiting for torch to be imported every time.

One server a test process has imported torch and the library once; every command is run by a fork of it, with an
environment, folder, output and exit code of its own. `started_anew=True` starts Python itself.
"""

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_SERVER = """
import json, os, sys, traceback
import torch, orthoscope.cli, orthoscope.diagnosis, orthoscope.prescriptions

def run(request):
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for descriptor in (1, 2):
        os.dup2(os.open(request["files"][descriptor - 1], os.O_WRONLY), descriptor)
    sys.argv = ["orthoscope", *request["arguments"]]
    sys.path[0] = request["cwd"]
    code = 1
    try:
        orthoscope.cli.main()
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code)

answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
"""


@functools.cache
def _server() -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    atexit.register(process.kill)
    return process


def orthoscope(
    *arguments: str, cwd: Path | None = None, started_anew: bool = False, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a verb and return its exit code and output."""
    environment = {**os.environ, "COLUMNS": "120", **environment}
    command = [sys.executable, "-m", "orthoscope", *arguments]
    if started_anew:
        return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120)
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdout", "stderr")]
        for file in files:
            file.touch()
        request = {
            "arguments": arguments,
            "cwd": str(cwd or Path.cwd()),
            "environment": environment,
            "files": list(map(str, files)),
        }
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(command, code, *(file.read_text() for file in files))
