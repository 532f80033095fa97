# SPDX-License-Identifier: Apache-2.0
"""Writes the table of a run into docs/performance.md, between two markers, and its plots beside it."""
import os

import obstacles
import plot
import text

BEGIN, END = "<!-- begin: tests/bench/run.sh --document -->", "<!-- end: tests/bench/run.sh --document -->"


def section(run):
    parts = [text.about(run), text.markdown(run["rows"])]
    for chart in run["plots"]:
        titles = "; ".join(panel["title"] for panel in chart["panels"])
        parts.append(f"![{titles}]({chart['file']})")
    short = [row for row in run["rows"] if row["verdict"] == "short"]
    if short:
        parts.append("Rows that do not reach their goal even with what is acceptable, and what stands between:")
        parts.append("\n".join(f"- **{', '.join(ids)}**: {reason}" for reason, ids in obstacles.group(short)))
    return "\n\n".join(parts)


def replaced(document, run):
    """The text of the document with the section of this run."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document does not have {BEGIN} and {END}")
    return f"{before}{begin}\n{section(run)}\n{end}{after}"


def write(run, folder):
    path = os.path.join(folder, "performance.md")
    with open(path, encoding="utf-8") as file:
        document = replaced(file.read(), run)
    with open(path, "w", encoding="utf-8") as file:
        file.write(document)
    for chart in run["plots"]:
        with open(os.path.join(folder, chart["file"]), "w", encoding="utf-8") as file:
            file.write(plot.draw(chart))
