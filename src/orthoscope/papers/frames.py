"""The frame that every panel of a figure has: its place on the page, ticks and titles."""

from orthoscope.report.charts import rule, words
from orthoscope.report.scales import Scale, tick_label

WIDTH, HEIGHT = 460, 278
LEFT, RIGHT, TOP, BOTTOM = 62, 444, 52, 226
LEGEND_TOP, LEGEND_STEP = 280, 15
STYLE = (
    "text{font:11px system-ui,Arial,sans-serif;fill:#1c1f24}.title{font-weight:600;font-size:12px}"
    ".quiet{fill:#626a76}.axis{stroke:#626a76}.grid{stroke:#e4e6ea}.reference{stroke:#1c1f24;stroke-dasharray:3 3}"
)


def titles(title: str, measure: str) -> str:
    """What is shown, and how it was measured, above the frame."""
    return words(LEFT, 20, title, "title") + words(LEFT, 36, measure, "quiet")


def axis_name(along: str) -> str:
    """What x is, below the frame."""
    return words((LEFT + RIGHT) / 2, BOTTOM + 34, along, "quiet", "middle")


def ticks(across: Scale, up: Scale) -> str:
    drawn = []
    for tick in up.ticks():
        y = up(tick)
        if y is not None:
            drawn.append(rule(LEFT, y, RIGHT, y, "grid") + words(LEFT - 6, y + 4, tick_label(tick), "quiet", "end"))
    for tick in across.ticks():
        x = across(tick)
        if x is not None:
            drawn.append(rule(x, BOTTOM, x, BOTTOM + 4, "axis"))
            drawn.append(words(x, BOTTOM + 17, tick_label(tick), "quiet", "middle"))
    return "".join(drawn) + rule(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")
