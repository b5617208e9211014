"""`python -m orthoscope` is the command line."""

from orthoscope.cli import main

main()
