"""The evidence: experiments of the papers, one module each, `papers/<bibkey>/<figure>.py`."""
