"""Networks and batches by name: what a user types on the command line, resolved."""

from orthoscope.models.targets.resolve import BUILTIN, resolve, resolve_batch
from orthoscope.models.targets.target import Batch, BatchSource, Target, TargetError, parse_call

__all__ = ["BUILTIN", "Batch", "BatchSource", "Target", "TargetError", "parse_call", "resolve", "resolve_batch"]
