"""What is kept of one module call: small frames, a norm, and a few facts."""

from dataclasses import dataclass, field

from torch import Tensor, nn

from orthoscope.probe.names import owned_parameters


@dataclass(eq=False)  # one call is not another, whatever it holds
class Observed:
    """What a module call left behind: small frames of its output, and the norm of its gradient."""

    name: str
    call: int
    module: nn.Module
    shape: tuple[int, ...]  # of the whole batch's output
    part_shape: tuple[int, ...]  # of what is here
    units: int
    weighted: bool  # multiplies by a matrix of its own
    frame: Tensor
    token_frames: Tensor | None
    channels_first: bool  # (samples, channels, positions): its second dimension is no sequence
    finite: bool
    input_is_constant: bool  # the input's rows are equal; only looked at when the output's may be
    input_is_zero: bool
    gradient: float | None = None
    also: list[str] = field(default_factory=list)
    settled: bool | None = None  # `zero_weight` as the ranks found it together

    @property
    def zero_weight(self) -> bool:
        """Whether what multiplies the output is zero, so that nothing of the input gets through."""
        return any(not bool(p.detach().any()) for p in self.scales) if self.settled is None else self.settled

    @property
    def scales(self) -> list[nn.Parameter]:
        """Parameters that multiply the output: matrices, and a normalisation's or layer-scale's vector, not biases."""
        owned = list(owned_parameters(self.module))
        matrices = [p for p in owned if p.ndim >= 2] if self.weighted else []
        bias = getattr(self.module, "bias", None)
        return matrices or [p for p in owned if p is not bias]
