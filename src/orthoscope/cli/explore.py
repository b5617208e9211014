"""`orthoscope explore`: theory and networks in a browser."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orthoscope.cli.app import app


@app.command
def explore(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    follow: Path | None = None,
    open: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Explore live in a browser: curves of theory under sliders, networks diagnosed on demand, a training followed.

    Prints an address with a secret token, and serves it on this machine alone until Ctrl-C. Needs the extra serve.

    Parameters
    ----------
    host
        Address to listen on; on another than this machine's own, the token is the only protection, unencrypted.
    port
        Port to listen on; 0 is any free one.
    follow
        Log of a training that is watched, such as run.jsonl: shown as it grows.
    open
        Open the address in a browser.
    """
    try:
        from orthoscope.live import explore as serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise ValueError("explore needs a web server: pip install 'orthoscope[serve]'") from error

    serve(host, port, None if follow is None else str(follow), open)
    return 0
