"""Muon on many processes; entered only with a process group or DTensors.

- `exchange`: the step, and which tensors are exchanged how.
- `replicated`: full tensors on every rank (DDP): agreement of the ranks, owners, one all_gather.
- `sharded`: DTensors (FSDP2, HSDP, tensor parallelism): slices to owners and back.
- `splits`: owners, slices and buffer offsets as integers, shared with `optim.muon.cost`.

Nothing is imported here: `splits` needs neither torch nor DTensor, which takes a second to import.
"""
