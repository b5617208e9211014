"""What every page has around its content: title, style, and a policy that nothing is loaded."""

from importlib import resources

# Nothing may be loaded, whatever a document holds: escaping is the first lock, this the second.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def shell(eyebrow: str, title: str, content: str) -> str:
    """One self-contained page; all three are markup already."""
    style = resources.files(__package__).joinpath("style.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title} · Orthoscope</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header><p class="eyebrow">{eyebrow}</p><h1>{title}</h1></header>\n'
        f"<main>\n{content}</main>\n</body>\n</html>\n"
    )
