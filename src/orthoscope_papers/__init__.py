"""The evidence: figures, tables and errata of the papers behind Orthoscope, reproduced; the verdict's calibration."""
