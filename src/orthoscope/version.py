"""The version, read from the installed package so that it is written down once."""

from importlib.metadata import version

VERSION = version("orthoscope")
