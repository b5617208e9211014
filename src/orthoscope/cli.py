"""The command line: verbs only, each a call into the library. Nothing heavy is imported until a verb runs."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter

if TYPE_CHECKING:
    from orthoscope.diagnosis.specimens import Specimen

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


@app.command
def diagnose(
    *targets: str,
    batch: str | None = None,
    samples: Annotated[int | None, Parameter(name=["--samples", "-n"])] = None,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    fail_on: str = "",
    seed: int = 0,
    seeds: int = 1,
    running_statistics: Annotated[bool, Parameter(negative="")] = False,
    deep: Annotated[bool, Parameter(negative="")] = False,
    traceback: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Diagnose networks at initialisation; without a target, a built-in gallery of sick and healthy ones.

    Parameters
    ----------
    targets
        package.module:callable, path/to/file.py::callable, timm:NAME, hf:NAME, or a built-in such as
        "mlp(depth=50, activation=relu)", convnet(...), resnet(...), transformer(...).
    batch
        package.module:callable or file.py::callable that gives a batch; without it, one is made up to fit.
    samples
        Samples in a batch that is made up; 64 unless told, in the gallery what each network asks for.
    html
        Write one self-contained page here.
    json
        Write the versioned JSON here; "-" is standard output, and the table goes to standard error.
    fail_on
        Symptoms that make the exit code 1: collapse, vanish, explode, degenerate-input, or any; comma-separated.
    seed
        Seed of the weights, of a batch that is made up, and of the direction that is differentiated.
    seeds
        Draw every network with so many seeds, counting from --seed: the first is told, the page shows the range of all.
    running_statistics
        Use the running statistics of batch norm, as in eval mode, instead of the batch's own.
    deep
        Look at the Jacobians of residual blocks too, as `orthoscope residual` does.
    traceback
        Show the Python traceback when a network fails.
    """
    from orthoscope.diagnosis.gallery import GALLERY
    from orthoscope.diagnosis.specimens import Specimen, symptoms_named

    watched = symptoms_named(fail_on)
    if not 0 <= seed < 2**63:
        raise ValueError(f"a seed is a whole number from 0 to 2^63 - 1, got {seed}")
    if not 1 <= seeds <= 1000:
        raise ValueError(f"networks are drawn with 1 to 1000 seeds, got {seeds}")
    _refuse_unwritable(html, json)
    specimens = [Specimen(target, batch=batch) for target in targets] or list(GALLERY)
    if samples is not None:
        specimens = [replace(specimen, samples=samples) for specimen in specimens]
    documents, failures = _diagnosed(specimens, range(seed, seed + seeds), not running_statistics, traceback, deep)
    _show(documents, to_stderr=json == "-")
    if len(targets) == len(documents) == 1:
        _suggest_fix(documents[0], targets[0], {"--batch": batch, "--samples": samples, "--seed": seed or None}, json)
    _write(documents, html, json)
    if failures:
        return BAD_INPUT
    return FOUND if any(symptom in watched for d in documents for symptom in d["symptoms"]) else 0


def _diagnosed(
    specimens: "list[Specimen]", seeds: range, batch_statistics: bool, traceback: bool, deep: bool = False
) -> tuple[list[dict[str, Any]], int]:
    """The documents of all that could be diagnosed, and how many could not: one bad target loses no other."""
    from orthoscope.diagnosis.seeds import with_seeds
    from orthoscope.models import TargetError

    documents: list[dict[str, Any]] = []
    failures = 0
    with _progress() as (advance, note):
        for number, specimen in enumerate(specimens):
            share = number / len(specimens)

            def progress(module: str, expected: int, done: list[int] = [0], share: float = share) -> None:  # noqa: B006
                done[0] += 1
                advance(
                    share + min(1.0, done[0] / expected / len(seeds)) / len(specimens), module or "the whole network"
                )

            advance(share, specimen.title or specimen.target)
            try:
                drawn = [specimen.diagnose(seed, batch_statistics, progress, deep).document() for seed in seeds]
                documents.append(drawn[0] if len(drawn) == 1 else with_seeds(drawn, seeds))
            except TargetError as error:
                failures += 1
                if traceback:
                    raise
                note(f"orthoscope: {error}")
    return documents, failures


@app.command
def residual(
    target: str,
    *,
    batch: str | None = None,
    samples: Annotated[int, Parameter(name=["--samples", "-n"])] = 1,
    blocks: str = "",
    top: int | None = None,
    classes: int = 10,
    token: int | None = None,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    seed: int = 0,
    running_statistics: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Measure how residual blocks align: their Jacobians' singular values and vectors across depth.

    Parameters
    ----------
    target
        As for diagnose: package.module:callable, path/to/file.py::callable, timm:NAME, hf:NAME, or a built-in.
    batch
        package.module:callable or file.py::callable that gives a batch; without it, one is made up to fit.
    samples
        Samples of the batch whose Jacobians are taken; numbers are medians over them.
    blocks
        Names of modules, comma-separated, instead of the residual branches that are found.
    top
        Singular values of every block; one more than the classes unless told.
    classes
        What the rank of a Jacobian is compared with.
    token
        Take the Jacobian of one token, the others held; for networks on sequences.
    html
        Write one self-contained page here.
    json
        Write the versioned JSON here; "-" is standard output, and the table goes to standard error.
    seed
        Seed of the weights, of a batch that is made up, and of the random vectors.
    running_statistics
        Use the running statistics of batch norm instead of those of the batch.
    """
    from orthoscope.diagnosis.specimens import Specimen

    _refuse_unwritable(html, json)
    options = {"samples": samples, "top": top, "classes": classes, "token": token}
    named = [name.strip() for name in blocks.split(",") if name.strip()] or None
    document = (
        Specimen(target, batch=batch)
        .align(seed, blocks=named, running_statistics=running_statistics, **options)
        .document()
    )
    _show([document], to_stderr=json == "-")
    _write([document], html, json)
    return 0


@app.command
def compare(
    before: Path,
    after: Path,
    *,
    markdown: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    fail_if_worse: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Compare two saved diagnoses: before and after a change, two checkpoints, two branches.

    Parameters
    ----------
    before
        A file that diagnose --json wrote; of several networks in it, those are compared that both files name.
    after
        The other.
    markdown
        Write a comment for a pull request here; "-" is standard output, and the table goes to standard error.
    html
        Write one self-contained page here, of a single network.
    json
        Write the versioned JSON here, of a single network; "-" is standard output.
    fail_if_worse
        Exit code 1 if a verdict is worse than it was.
    """
    from orthoscope.prescriptions.saved import compared_files
    from orthoscope.report import comparison_markdown
    from orthoscope.report.documents import replace as write_whole

    if markdown == json == "-":
        raise ValueError("standard output holds one of the two: give --markdown or --json the name of a file")
    _refuse_unwritable(html, json, None if markdown in (None, "-") else Path(str(markdown)))
    documents = compared_files(before, after)
    if len(documents) > 1 and (html or json):
        raise ValueError("a page or JSON holds one comparison: compare files of one network each")
    for document in documents:
        _show([document], to_stderr="-" in (markdown, json))
    comment = "\n".join(comparison_markdown(document) for document in documents)
    if markdown == "-":
        print(comment, end="")
    elif markdown is not None:
        write_whole(Path(markdown), comment)
        print(f"wrote {markdown}", file=sys.stderr)
    _write(documents, html, json)
    worse = any(_worse(document["verdict"]) for document in documents)
    return FOUND if fail_if_worse and worse else 0


def _worse(verdict: dict[str, str]) -> bool:
    from orthoscope.findings import Verdict

    return Verdict(verdict["after"]).rank > Verdict(verdict["before"]).rank


@app.command
def predict(
    *targets: str,
    samples: Annotated[int, Parameter(name=["--samples", "-n"])] = 64,
    overlap: float = 0.0,
    at_least: int = 0,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
) -> int:
    """Predict by theory alone, before anything is built, how deep networks train and what ends them.

    Parameters
    ----------
    targets
        Such as "mlp(activation=gelu, norm=layer, depth=1..500, width=256, init=gaussian)", with the arguments
        that diagnose takes; depth is a number or a range. Several are compared in one table.
    samples
        Samples in a batch; batch norm and the rank of samples depend on it.
    overlap
        Mean cosine of two samples of the batch.
    at_least
        Exit code 1 if a network does not train up to this depth.
    html
        Write one self-contained page with the pictures here, of a single network.
    json
        Write the versioned JSON here, of a single network; "-" is standard output, the table goes to standard error.
    """
    from rich.console import Console

    from orthoscope import report
    from orthoscope.diagnosis import predict as foretell

    if not targets:
        raise ValueError('no network was named: write orthoscope predict "mlp(activation=gelu, depth=1..500)"')
    if len(targets) > 1 and (html or json):
        raise ValueError("a page or JSON holds one prediction: ask for one network at a time")
    _refuse_unwritable(html, json)
    documents = []
    for target in targets:
        with _progress() as (advance, _):

            def progress(share: float, what: str = target, advance: Callable[..., None] = advance) -> None:
                advance(share, what)

            documents.append(foretell(target, samples=samples, overlap=overlap, progress=progress).document())
    if len(documents) > 1:
        Console().print(report.comparison_table(documents))
    else:
        _show(documents, to_stderr=json == "-")
    _write(documents, html, json)
    return FOUND if any((document["deepest"] or 0) < at_least for document in documents) else 0


@app.command
def fix(
    target: str,
    *,
    batch: str | None = None,
    samples: Annotated[int, Parameter(name=["--samples", "-n"])] = 64,
    output: Path | None = None,
    weights: Path | None = None,
    snippet: Path | None = None,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    steps: int = 150,
    confirm: bool = True,
    trained: bool | None = None,
    reinitialise: Annotated[bool, Parameter(negative="")] = False,
    seed: int = 0,
    traceback: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Apply the best fix to a copy of a network, measure again, and confirm with a short training before and after.

    Exit code 0 if it is healthy or was mended, 1 if nothing helped, training refutes what did, or its weights are
    trained, 2 for bad input.

    Parameters
    ----------
    target
        As for diagnose: package.module:callable, path/to/file.py::callable, timm:NAME, hf:NAME, or a built-in.
    batch
        package.module:callable or file.py::callable that gives a batch; without it, one is made up to fit.
    samples
        Samples in a batch that is made up.
    output
        Folder for all results: fixed.safetensors, fix.py and fix.json; made if it is not there.
    weights
        Write the fixed weights here, .safetensors.
    snippet
        Write the code of the fix here, .py.
    html
        Write one self-contained page here: the network, what was tried, and before and after; also if nothing helped.
    json
        Write the versioned JSON here; "-" is standard output, and the table goes to standard error.
    steps
        Training steps, at each of three learning rates, that confirm the verdicts before and after.
    confirm
        Whether to train at all.
    trained
        The weights are trained and must stay: give advice only. --no-trained says that they are not, whatever they
        look like.
    reinitialise
        Change trained weights all the same.
    seed
        Seed of the weights, of a batch that is made up, and of what is drawn anew.
    traceback
        Show the Python traceback when something fails.
    """
    if output is not None and (weights or snippet or json):
        raise ValueError("--output names the folder of all results: give it alone, or --weights, --snippet and --json")
    if output is not None:
        _refuse_closed(output)
    _refuse_unwritable(html, json)
    _refuse_unwritable_as(weights, ".safetensors")
    _refuse_unwritable_as(snippet, ".py")
    from orthoscope.prescriptions.command import Places, conclude, fix_target

    places = Places(weights, snippet, json, html) if output is None else Places.within(output, html)
    training = steps if confirm else None
    with _progress() as (advance, note):
        found = fix_target(target, batch, samples, seed, training, trained, reinitialise, places.weights, advance, note)
    return conclude(found, places)  # after the bar is gone


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
        Address to listen on; others than this machine's own are told apart by the token alone, without encryption.
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


@app.command
def plan_muon(
    *,
    shapes: str = "",
    model: str = "",
    ranks: str = "8",
    layout: str = "ddp,fsdp",
    shards: int | None = None,
    dtype: str = "float32",
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
) -> int:
    """Plan the distributed Muon: what each rank sends, keeps and computes in one step.

    Parameters
    ----------
    shapes
        Shapes of the parameters, such as `4096x4096*128,11008x4096*64,4096x11008*32`.
    model
        Instead of shapes: 7b or 70b, the hidden matrices of LLaMA.
    ranks
        Number of ranks; several are planned one after the other, as in 8,64,1024.
    layout
        ddp, fsdp, hsdp, or several of them.
    shards
        Ranks that share one replica under hsdp, which needs it; a divisor of the ranks.
    dtype
        Of parameters, momentum and what is sent: float32, bfloat16, float16, float64, or fp32, bf16, fp16, fp64.
    json
        Write JSON here; "-" is standard output, and the table goes to standard error.
    """
    import json as strict_json

    from rich.console import Console

    from orthoscope.optim.plan import SCHEMA, muon_plan
    from orthoscope.optim.plan_shapes import (
        floating_type,
        layouts_with_shards,
        model_shapes,
        parsed_shapes,
        whole_numbers,
    )
    from orthoscope.report.documents import replace as write_whole
    from orthoscope.report.muon_plan import plan_table

    if bool(shapes) == bool(model):
        raise ValueError("a plan is for one list of parameters: give either --shapes or --model")
    _refuse_unwritable(None, json)
    parameters = model_shapes(model) if model else parsed_shapes(shapes)
    plans = [
        muon_plan(parameters, layout=kind, ranks=count, shards=shared, dtype=floating_type(dtype)).document()
        for kind, shared in layouts_with_shards(layout, shards)
        for count in whole_numbers(ranks)
    ]
    Console(stderr=json == "-").print(plan_table(plans))
    content = strict_json.dumps({"schema": SCHEMA, "plans": plans}, allow_nan=False, indent=1) + "\n"
    if json == "-":
        print(content, end="")
    elif json is not None:
        write_whole(Path(json), content)
        print(f"wrote {json}", file=sys.stderr)
    return 0


@app.command
def reproduce(
    *names: str,
    quick: Annotated[bool, Parameter(negative="")] = False,
    full: Annotated[bool, Parameter(negative="")] = False,
    engine: str = "local",
    scheduler: str | None = None,
    workers: int | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    output: Path = Path("results"),
    page: Path | None = None,
) -> int:
    """Reproduce figures and tables of the papers: the printed number beside ours; without a name, list them all.

    Parameters
    ----------
    names
        paper/figure, a paper, or all; exit code 1 if a check fails or a run failed.
    quick
        The smallest sizes at which the claims are still decided.
    full
        The paper's own setting, where the default is smaller.
    engine
        Where the runs happen: local (processes), dask, ray, slurm, or inline (this process).
    scheduler
        Address of the cluster for dask or ray, such as tcp://host:8786.
    workers
        Processes; one a core unless told.
    json
        Write the versioned JSON here; "-" is standard output, and the tables go to standard error.
    output
        Folder of the results; finished runs are kept there too, so that the same command goes on after a crash.
    page
        Write the page of saved results here, in Markdown, judge and draw their tables anew, and run nothing.
    """
    from orthoscope.papers.command import run_named, show_list, write_page

    if quick and full:
        raise ValueError("--quick and --full are two settings: give one of them")
    _refuse_unwritable(None, json, page)
    if page is not None:
        if names or quick or full:
            raise ValueError(
                "--page writes what is saved of the default setting and runs nothing: give no names or setting with it"
            )
        if not output.is_dir():
            raise ValueError(f"there are no results to write a page of: {str(output)!r} is no folder")
        return write_page(page, output)
    if not names:
        if json is not None:
            raise ValueError("--json holds what was found: name experiments with it, or all")
        return show_list(output, workers)
    _refuse_closed(output)
    return run_named(
        names, "quick" if quick else "full" if full else "default", output, json, engine, workers, scheduler
    )


def _show(documents: list[dict[str, Any]], to_stderr: bool) -> None:
    from rich.console import Console

    from orthoscope import report

    console = Console(stderr=to_stderr)
    if len(documents) > 1:
        console.print(report.gallery_table(documents))
    elif documents:
        console.print(report.terminal(documents[0]))


def _suggest_fix(document: dict[str, Any], target: str, options: dict[str, Any], json: str | None) -> None:
    """The command that mends what was found, on one line, to be pasted."""
    import shlex

    from rich.console import Console

    from orthoscope.findings import Symptom
    from orthoscope.report.labelled import LABEL_WIDTH

    # Of an input that is degenerate, no change to the network helps.
    if not set(document["symptoms"]) - {Symptom.DEGENERATE_INPUT}:
        return
    given = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    line = f"{'fix':{LABEL_WIDTH}}{shlex.join(['orthoscope', 'fix', target, *given])}"
    Console(stderr=json == "-").print(line, markup=False, highlight=False, soft_wrap=True)


def _refuse_unwritable(html: Path | None, json: str | None, markdown: Path | None = None) -> None:
    """Say now, not after minutes of work, that an output cannot be written."""
    for path, suffix in ((html, ".html"), (json if json != "-" else None, ".json"), (markdown, ".md")):
        _refuse_unwritable_as(path, suffix)


def _refuse_unwritable_as(path: str | Path | None, suffix: str) -> None:
    if path is None:
        return
    if Path(path).suffix != suffix:
        raise ValueError(f"{str(path)!r} does not end in {suffix}: give a name that does")
    if Path(path).is_dir():
        raise ValueError(f"{str(path)!r} is a folder: give the name of a file")
    if not os.access(Path(path).absolute().parent, os.W_OK):
        raise ValueError(f"{str(path)!r} cannot be written: its folder is missing or closed to you")


def _refuse_closed(folder: Path) -> None:
    """The same of a folder that need not be there yet."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ValueError(f"{str(folder)!r} cannot hold results: {str(there)!r} is no folder, or closed to you")


def _write(documents: list[dict[str, Any]], html: Path | None, json: str | None) -> None:
    from orthoscope import report

    if not documents:
        return
    for path in (html, json):
        if path is not None and path != "-":
            report.write(path, documents)
            print(f"wrote {path}", file=sys.stderr)
    if json == "-":
        print(report.report_json(documents))


@contextlib.contextmanager
def _progress() -> Iterator[tuple[Callable[[float, str], None], Callable[[str], None]]]:
    """A bar on standard error that leaves nothing behind: (share done, what is going on), and a way to say a line."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)

        def advance(share: float, what: str) -> None:
            bar.update(task, completed=share, description=_plain(what))

        yield advance, lambda line: console.print(_plain(line), highlight=False, soft_wrap=True)


def _plain(text: str) -> str:
    """Text that rich does not read as markup."""
    from rich.markup import escape

    return escape(text)


@data.default
def list_data() -> int:
    """List the datasets: what they are, whether they are here, and how they are fetched."""
    from rich.console import Console
    from rich.table import Table

    from orthoscope.data import available, data_directory

    table = Table("name", "what", "train + test", "shape", "here", "comes from", box=None, header_style="bold")
    for entry in available():
        samples = " + ".join(str(count) for count in entry.samples.values())
        shape = "x".join(map(str, entry.shape))
        table.add_row(entry.name, entry.description, samples, shape, "yes" if entry.present else "no", entry.source)
    console = Console()
    console.print(table)
    console.print(
        _plain(f"orthoscope data get NAME fetches one into {data_directory()}"), highlight=False, soft_wrap=True
    )
    return 0


@data.command
def get(*names: str) -> int:
    """Fetch datasets by name, check them, and keep them in the data directory.

    Parameters
    ----------
    names
        mnist, fashion-mnist, cifar10.
    """
    from orthoscope.data import available
    from orthoscope.data import get as fetch

    if not names:
        raise ValueError(f"no dataset was named: choose from {', '.join(entry.name for entry in available())}")
    for name in names:
        with _progress() as (advance, _):

            def progress(done: int, total: int, what: str, advance: Callable[[float, str], None] = advance) -> None:
                advance(done / total if total else 0.0, what)

            folder = fetch(name, progress=progress)
        print(f"{name}: {folder}")
    return 0


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


if __name__ == "__main__":
    main()
