"""One rank of a training that survives the death of another: `restart_worker.py FOLDER`, run by torchrun with restarts.

The last rank kills itself in the first attempt; the next attempt continues from the last checkpoint.
"""

import faulthandler
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from checkpoints import restored, state_of
from joining import join
from leaving import leave
from training import STEPS, network, optimizer_of, parameters_of, prepared, train

EVERY = 4  # steps between checkpoints
DEATH = 10  # the step before which a rank dies, after the checkpoint of step 8


def connect() -> None:
    """Join the other ranks under names of this attempt.

    torchrun (2.13) keeps its store over a restart, with the addresses of the ranks of the last attempt: who is
    early finds one that is dead, and waits for it until the time limit.
    """
    environment = os.environ
    address, port = environment["MASTER_ADDR"], int(environment["MASTER_PORT"])
    store = dist.PrefixStore(f"attempt{environment['TORCHELASTIC_RESTART_COUNT']}", dist.TCPStore(address, port))
    rank, ranks = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    join(store=store, rank=rank, world_size=ranks)


def main(folder: Path) -> None:
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # Only the first weights depend on the seed: a restart that loaded nothing would show.
    model = prepared("fsdp", network(seed=attempt))
    optimizer = optimizer_of(model)
    # A checkpoint without .metadata, which is written last, is not complete.
    complete = [step for step in range(0, STEPS, EVERY) if (folder / f"step{step}" / ".metadata").exists()]
    start = max(complete, default=0)
    if start:
        restored(model, optimizer, folder / f"step{start}")
    for step in range(start, STEPS):
        if step and step % EVERY == 0 and step > start:
            checkpoint.save(state_of(model, optimizer), checkpoint_id=folder / f"step{step}")
        if attempt == 0 and step == DEATH and dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        train(model, optimizer, 1)
    results = {"attempt": attempt, "start": start, "end": parameters_of(model)}
    torch.save(results, folder / f"rank{dist.get_rank()}.pt")


if __name__ == "__main__":
    faulthandler.dump_traceback_later(280, exit=True)
    torch.set_num_threads(1)
    connect()
    main(Path(sys.argv[1]))
    leave()
