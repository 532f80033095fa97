# SPDX-License-Identifier: Apache-2.0
"""Draws charts with logarithmic axes as SVG. The colours follow the reader's light or dark scheme."""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 470, 330  # Of one panel.
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 34, 46
LEGEND = 18  # Height of a line of the legend.
LIGHT = ["#0b5cad", "#b3261e", "#1b7f3b", "#8a5a00", "#6b3fa0"]
DARK = ["#6db3ff", "#ff8a80", "#6fd08c", "#f0b429", "#c7a6ff"]
DASHES = ["", "", "6 3", "2 3", "9 3 2 3"]


def ticks(low, high):
    """The powers of ten that enclose the values."""
    return [10.0 ** power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def size_name(value):
    for unit, name in ((1 << 20, " Mi"), (1 << 10, " Ki")):
        if value >= unit and value % unit == 0:
            return f"{value // unit:g}{name}"
    return f"{value:,g}"


class Axis:
    """Maps values to positions, by their logarithm."""

    def __init__(self, low, high, begin, end):
        self._low, self._begin = math.log10(low), begin
        self._scale = (end - begin) / max(math.log10(high) - self._low, 1e-9)

    def at(self, value):
        return self._begin + (math.log10(value) - self._low) * self._scale


def draw_panel(panel, chart, left, top):
    points = [point for series in panel["series"] for point in series["points"]]
    if not points:
        return []
    xs = sorted({x for x, _ in points})
    marks = ticks(min(y for _, y in points), max(y for _, y in points))
    if len(marks) == 1:
        marks.append(marks[0] * 10)
    bottom, right = top + HEIGHT - BOTTOM, left + WIDTH - RIGHT
    x_axis = Axis(xs[0], max(xs[-1], xs[0] * 1.01), left + LEFT, right)
    y_axis = Axis(marks[0], marks[-1], bottom, top + TOP)
    out = [f'<text class="title" x="{(left + LEFT + right) / 2}" y="{top + 20}">{escape(panel["title"])}</text>']
    for mark in marks:
        y = y_axis.at(mark)
        out.append(f'<path class="grid" d="M{left + LEFT} {y:.1f}H{right}"/>'
                   f'<text class="end" x="{left + LEFT - 6}" y="{y + 4:.1f}">{mark:,.10g}</text>')
    last = -100.0
    for x in xs:
        at = x_axis.at(x)
        out.append(f'<path class="grid" d="M{at:.1f} {top + TOP}V{bottom}"/>')
        if at - last > 36:
            out.append(f'<text class="middle" x="{at:.1f}" y="{bottom + 16}">{size_name(x)}</text>')
            last = at
    out.append(f'<path class="axis" d="M{left + LEFT} {top + TOP}V{bottom}H{right}"/>')
    out.append(f'<text class="middle" x="{(left + LEFT + right) / 2}" y="{bottom + 36}">{escape(chart["x"])}</text>')
    middle = (top + TOP + bottom) / 2
    out.append(f'<text class="middle" x="{left + 14}" y="{middle}" transform="rotate(-90 {left + 14} {middle})">'
               f'{escape(chart["y"])}</text>')
    for index, series in enumerate(panel["series"]):
        dash = f' stroke-dasharray="{DASHES[index % 5]}"' if DASHES[index % 5] else ""
        path = " ".join(f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in series["points"])
        out.append(f'<polyline class="line c{index % 5}"{dash} points="{path}"/>')
        out += [f'<circle class="dot c{index % 5}" cx="{x_axis.at(x):.1f}" cy="{y_axis.at(y):.1f}" r="2.6"/>'
                for x, y in series["points"]]
        y = top + HEIGHT + LEGEND * (index + 0.5)
        out.append(f'<path class="line c{index % 5}"{dash} d="M{left + LEFT} {y}h28"/>'
                   f'<text x="{left + LEFT + 36}" y="{y + 4}">{escape(series["label"])}</text>')
    return out


def style():
    def colours(text, grid, ground, palette):
        rules = [f".ground{{fill:{ground}}}", f"text{{fill:{text}}}", f".axis{{stroke:{text}}}", f".grid{{stroke:{grid}}}"]
        rules += [f".line.c{i}{{stroke:{colour}}}.dot.c{i}{{fill:{colour}}}" for i, colour in enumerate(palette)]
        return "".join(rules)
    return ("text{font:12px sans-serif}.title{font-weight:bold;font-size:14px;text-anchor:middle}"
            ".middle{text-anchor:middle}.end{text-anchor:end}.line{fill:none;stroke-width:2}.axis,.grid{fill:none}"
            + colours("#1f2328", "#d8dee4", "#ffffff", LIGHT)
            + "@media (prefers-color-scheme:dark){" + colours("#e6edf3", "#30363d", "#0d1117", DARK) + "}")


def draw(chart):
    """Returns the SVG of a chart of a stored run."""
    panels = chart["panels"]
    lines = max(len(panel["series"]) for panel in panels)
    width, height = WIDTH * len(panels), HEIGHT + LEGEND * lines + 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           f'role="img" aria-label="{escape("; ".join(panel["title"] for panel in panels))}">',
           f"<style>{style()}</style>", f'<rect class="ground" width="{width}" height="{height}"/>']
    for index, panel in enumerate(panels):
        out += draw_panel(panel, chart, index * WIDTH, 0)
    return "\n".join(out + ["</svg>", ""])
