"""Runs a worker script on several processes of this machine, as a user would: by torchrun, on a free port."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).parent
Results = list[dict[str, Any]]  # by rank


def launch(worker: str, ranks: int, *arguments: str, timeout: float = 120.0, restarts: int = 0) -> list[str]:
    """Run `worker`, a file beside this one, on `ranks` processes, and return the lines that it printed.

    Fails with all that was printed if any rank fails or the time is up; leaves no process behind either way.
    A worker says on one line what a test is to read: lines of several ranks come in any order.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += [f"--max-restarts={restarts}"]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "ONEDNN_MAX_CPU_ISA": os.environ.get("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"),
        # Where a machine's own name leads nowhere, gloo needs to be told; and nothing shall be heard outside.
        **({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]),
    }
    process = subprocess.Popen(
        [*command, str(HERE / worker), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        # Asked, not killed: torchrun then ends its workers, which are sessions of their own.
        process.terminate()
        try:
            printed, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, _ = process.communicate()
        raise AssertionError(f"{worker} on {ranks} ranks took over {timeout:.0f} s\n{printed}") from None
    finally:
        process.terminate()
    assert process.returncode == 0, f"{worker} on {ranks} ranks failed\n{printed}"
    return printed.splitlines()


def loaded(folder: Path, ranks: int) -> Results:
    """The results that the ranks of a worker saved in its folder."""
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(ranks)]
