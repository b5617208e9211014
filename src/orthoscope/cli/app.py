"""The command line as a whole: its name, its help, its exit codes. Verbs add themselves."""

from cyclopts import App

FOUND, BAD_INPUT, INTERRUPTED = 1, 2, 130


def _version() -> str:
    from orthoscope.version import VERSION

    return VERSION


app = App(
    name="orthoscope",
    help="Will this network train; if not, where does the signal die or the gradient explode, and why?",
    help_epilogue="Exit codes: 0 done, 1 a symptom of --fail-on was found, --at-least was missed, "
    "a verdict became worse, or a check of reproduce failed, 2 bad input.",
    version=_version,
)
data = App(name="data", help="List the datasets, or fetch one: orthoscope data get cifar10.")
app.command(data)
