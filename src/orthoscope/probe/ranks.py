"""What the processes that share a batch tell each other; a process alone tells nobody anything."""

import contextlib
import math
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import sample_frame

# Numbers in one message: enough to say how the tensors of an output could be read.
_WORDS = 16
_FINE, _FAILED = 1, 0


class Ranks:
    """The processes a batch is split over, in an order that all of them agree on; none for a process alone.

    `groups` has a process group for every dimension of their mesh, the last dimension first: one for a
    line of ranks, two where groups of ranks hold replicas. Whatever is gathered comes in row-major order
    of the mesh, which is how `init_device_mesh` counts ranks.
    """

    def __init__(self, groups: Sequence[Any] = (), device: torch.device | None = None) -> None:
        sizes = [group.size() for group in groups]
        self.size = math.prod(sizes)
        self.groups = tuple(groups) if self.size > 1 else ()
        self.rank = sum(group.rank() * math.prod(sizes[:level]) for level, group in enumerate(groups))
        self.device = device
        self._parted = False  # whether everybody knows that it is over

    @property
    def alone(self) -> bool:
        return not self.groups

    def gather(self, tensor: Tensor) -> Float[Tensor, "ranks ..."]:
        """Everybody's tensor, all of one shape, stacked; costs `size` times its bytes."""
        gathered = tensor.to(self.device).unsqueeze(0)
        for group in self.groups:
            parts = [torch.empty_like(gathered) for _ in range(group.size())]
            dist.all_gather(parts, gathered.contiguous(), group=group)
            gathered = torch.cat(parts)
        return gathered

    def sum_(self, tensor: Tensor) -> Tensor:
        """Add up everybody's tensor in place."""
        for group in self.groups:
            dist.all_reduce(tensor, group=group)
        return tensor

    def gather_rows(self, rows: Float[Tensor, "mine ..."], counts: Sequence[int]) -> Float[Tensor, "all ..."]:
        """Everybody's rows one below the other; `counts` says how many each has."""
        if self.alone:
            return rows
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        return torch.cat([part[:count] for part, count in zip(self.gather(padded), counts, strict=True)])

    def frame(self, rows: Float[Tensor, "mine units"], counts: Sequence[int]) -> Float[Tensor, "all all"]:
        r"""`linalg.sample_frame` of everybody's rows, though no rank ever sees them whole.

        Rank $r$ gets a block $H_r$ of the columns of all rows, and of $H = (H_1 \dots H_R)$

        $$ H_r^\top = Q_r F_r^\top, \qquad (F_1 \dots F_R)^\top = QF^\top, \qquad FF^\top = HH^\top $$

        A rank sends the rows it has once, and gathers `size` triangles of `all`² numbers in float64.
        """
        if self.alone:
            return sample_frame(rows)
        missing = -rows.shape[1] % self.size  # zeros add nothing to a product of rows
        columns = self._columns(torch.nn.functional.pad(rows.to(self.device), (0, missing)), counts)
        return sample_frame(torch.cat(list(self.gather(sample_frame(columns))), dim=-1))

    def _columns(self, rows: Float[Tensor, "mine units"], counts: Sequence[int]) -> Float[Tensor, "all share"]:
        """From all columns of some rows to some columns of all rows, by one exchange in every group."""
        index, totals = self.rank, list(counts)
        for group in self.groups:
            ways = group.size()
            width = rows.shape[1] // ways
            block = index // ways
            sizes = totals[block * ways : (block + 1) * ways]
            sent = rows.reshape(len(rows), ways, width).transpose(0, 1).flatten()
            received = rows.new_empty(sum(sizes) * width)
            arriving, leaving = [count * width for count in sizes], [len(rows) * width] * ways
            dist.all_to_all_single(received, sent, arriving, leaving, group=group)
            rows = received.view(-1, width)
            index, totals = block, [sum(totals[at : at + ways]) for at in range(0, len(totals), ways)]
        return rows

    def norm(self, norms: Sequence[float]) -> list[float]:
        r"""$\sqrt{\sum_r n_r^2}$ for each of several numbers; a negative one stands for a rank that has nothing to add.

        Negative where no rank has. Scaled first, for the square of 1e200 is infinite.
        """
        if self.alone or not norms:
            return list(norms)
        everybody = self.gather(torch.tensor(norms, dtype=torch.float64))
        largest = everybody.amax(0)
        scale = torch.where((largest > 0) & largest.isfinite(), largest, 1.0)
        total = (everybody.clamp_min(0) / scale).square().sum(0).sqrt() * scale
        return torch.where(largest < 0, -1.0, total).tolist()

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """For each of several questions, whether any rank says yes."""
        if self.alone or not flags:
            return list(flags)
        return self.gather(torch.tensor(flags, dtype=torch.int64)).bool().any(0).tolist()

    def agree(self, step: str, numbers: Sequence[int] = ()) -> list[list[int]]:
        """Everybody's numbers, when all are at the same step and none has failed; an error on every rank otherwise.

        Comes before any other exchange: a rank that has failed is heard here and nowhere else.
        """
        if self.alone:
            return [list(numbers)]
        words = [_FINE, zlib.crc32(step.encode()), *numbers]
        assert len(words) <= _WORDS, "a message has a fixed length"
        said = self.gather(torch.tensor(words + [0] * (_WORDS - len(words)), dtype=torch.int64)).tolist()
        for rank, (state, where, *_) in enumerate(said):
            if state == _FAILED:
                raise self._end(f"rank {rank} could not go on with its part of the batch: its own error says why")
            if where != words[1]:
                raise self._end(
                    f"the ranks ran different modules: rank {self.rank} is at {step}, rank {rank} elsewhere; "
                    "a diagnosis needs a model that calls the same modules in the same order on every part of the batch"
                )
        return [words[2 : 2 + len(numbers)] for words in said]

    def differ(self, complaint: str) -> ValueError:
        """What every rank raises when what they agreed to compare does not fit together."""
        self._parted = True
        return ValueError(complaint)

    def _end(self, reason: str) -> RuntimeError:
        self._parted = True
        return RuntimeError(reason)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """A rank that fails in here says so where the others next agree, so that they do not wait for it."""
        try:
            yield
        except Exception:
            if not self.alone and not self._parted:
                self._parted = True
                with contextlib.suppress(RuntimeError):  # the failure may be of the connection itself
                    self.gather(torch.full((_WORDS,), _FAILED, dtype=torch.int64))
            raise
