"""Hooks of MkDocs: the API reference, files beside docs/ that pages link to, and formulas as MathML.

Pages link to `../results/...` and `../CONTRIBUTING.md`, as a reader of the repository needs it. MathML, because
browsers draw it by themselves: the site needs no script and no network for its formulas.
"""

import html
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
import api_pages

ROOT = Path(__file__).parent.parent
BESIDE = "beside"  # the folder of the site for what lies outside docs/
_LINK = re.compile(r"\]\(\.\./([^)#\s]+)")
_FOLDER = re.compile(r"\[([^\]]+)\]\((?:\.\./)?([^)#\s]+)\)")  # a site has no page for a folder
_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
# What latex2mathml does not know, in words that it does.
_OTHER_WORDS = (
    (r"\tfrac", r"\frac"),
    (r"\dfrac", r"\frac"),
    (r"\operatorname*", r"\operatorname"),
    (r"\lVert", r"\|"),
    (r"\rVert", r"\|"),
)


def on_config(config: Any) -> Any:
    """Fill the part of the navigation named "API" with a page for every public package."""
    for part in config.nav:
        if "API" in part:
            part["API"] = api_pages.navigation()
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the API reference, what pages link to outside docs/, and README, CONTRIBUTING and CHANGELOG."""
    wanted = [
        link for file in files.documentation_pages() for link in _LINK.findall(Path(file.abs_src_path).read_text())
    ]
    for path, text in api_pages.pages().items():
        files.append(File.generated(config, path, content=text))
    wanted += ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    for link in dict.fromkeys(wanted):
        if (ROOT / link).is_file():
            files.append(File.generated(config, f"{BESIDE}/{link}", abs_src_path=str(ROOT / link)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links out of docs/ lead to the copies; links of the copies lead back."""
    markdown = _FOLDER.sub(lambda link: link[1] if (ROOT / link[2]).is_dir() else link[0], markdown)
    if page.file.src_uri.startswith(f"{BESIDE}/"):
        return markdown.replace("](docs/", "](../")
    return _LINK.sub(rf"]({BESIDE}/\1", markdown)


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    return _FORMULA.sub(_as_mathml, content)


def _as_mathml(found: re.Match[str]) -> str:
    """`\\( ... \\)` in a line, `\\[ ... \\]` on a line of its own."""
    formula = html.unescape(found[2]).strip()[2:-2].strip()
    for word, other in _OTHER_WORDS:
        formula = formula.replace(word, other)
    return str(convert(formula, display="block" if found[1] == "div" else "inline"))
