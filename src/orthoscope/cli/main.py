"""The way in: a verb is run, and whatever the user got wrong is one sentence."""

import sys

from cyclopts import CycloptsError

from orthoscope.cli.app import BAD_INPUT, INTERRUPTED, app


def main() -> None:
    """Run a verb; whatever the user got wrong is one sentence on standard error and exit code 2."""
    try:
        code = app(exit_on_error=False, print_error=False)
    except CycloptsError as error:
        code = _complain(" ".join(str(error).split()) + " (see orthoscope --help)")
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (ValueError, OSError, RuntimeError, ModuleNotFoundError) as error:
        if "--traceback" in sys.argv:
            raise
        code = _complain(str(error))
    sys.exit(code if isinstance(code, int) else 0)


def _complain(sentence: str) -> int:
    print(f"orthoscope: {sentence}", file=sys.stderr)
    return BAD_INPUT
