"""Calibration, Orthoscope's own evidence: how often its verdict is right, and how often its fixes work."""
