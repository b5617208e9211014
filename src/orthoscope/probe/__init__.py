"""One pass through any model, everything recorded."""

from orthoscope.probe.layer import Layer, Representation, Status
from orthoscope.probe.recording import Recording, record

__all__ = ["Layer", "Recording", "Representation", "Status", "record"]
