"""`orthoscope errata`: what is printed wrongly, refuted and corrected."""

from typing import Annotated

from cyclopts import Parameter

from orthoscope.cli.app import app


@app.command
def errata(*keys: str, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """List what is false as printed in the papers behind Orthoscope, each with a counterexample that is run now.

    Parameters
    ----------
    keys
        Only those whose key contains one of these words, such as lu2024 or theorem-5.11.
    json
        As JSON on standard output.
    """
    import json as strict_json

    from rich.console import Console

    from orthoscope import report, theory

    chosen = [erratum for erratum in theory.errata if not keys or any(key.lower() in erratum.key for key in keys)]
    if not chosen:
        raise ValueError(f"no erratum has {' or '.join(map(repr, keys))} in its key: run orthoscope errata for all")
    rows = [erratum.row() for erratum in chosen]
    if json:
        print(strict_json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        Console().print(report.errata_list(rows, theory.BIBLIOGRAPHY))
    return 0
