"""The report, live: the same viewer served to one person on this machine. Needs the extra `serve`."""

from orthoscope.live.server import explore

__all__ = ["explore"]
