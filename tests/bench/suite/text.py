# SPDX-License-Identifier: Apache-2.0
"""The table as text and as Markdown, and the sentence about the run."""

HEADS = ["", "", "ours", "rivals", "floor", "ratio", "goal", "verdict", "spread"]
VERDICTS = {"goal": "goal reached", "must": "acceptable", "short": "not reached", "-": "no ratio"}


def number(value):
    """Three significant digits, with separators and without exponent."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 2
    while abs(value) >= 10 ** (3 - digits) and digits > 0:
        digits -= 1
    return f"{value:.{digits if abs(value) >= 1 else 3}f}"


def figure(summed, unit):
    if summed is None:
        return "-"
    value = summed["median"]
    if unit == "/s" and value >= 1e6:
        return f"{number(value / 1e6)} M/s"
    if unit == "/s" and value >= 1e4:
        return f"{number(value / 1e3)} k/s"
    return f"{number(value)}{unit}" if unit == "/s" else f"{number(value)} {unit}"


def percent(part):
    return "-" if part is None else f"{part:.0%}"


def cells(row):
    unit = row["unit"]
    sign = "≤" if row["less_is_better"] else "≥"
    against = "" if row["against"] == "floor" else f" {row['against']}"
    ratio = "-" if row["ratio"] is None else f"{number(row['ratio']['median'])}{against}"
    if row["against"] == "limit":
        goal = f"≤ {number(row['limit'])} {unit}"
        ratio = "-" if row["ratio"] is None else number(row["ratio"]["median"])
    else:
        goal = f"{sign} {number(row['goal'])}{against}"
    rivals = ", ".join(f"{label} {figure(summed, unit)}" for label, summed in row["rivals"].items())
    return [row["id"], row["what"], figure(row["ours"], unit), rivals or "-", figure(row["floor"], unit), ratio, goal,
            VERDICTS[row["verdict"]], percent(row["spread"])]


def plain(rows):
    lines = [HEADS, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def markdown(rows):
    lines = ["| row | operation | ours | rivals | floor | ratio | goal | verdict | spread |",
             "|---|---|--:|---|--:|--:|--:|---|--:|"]
    return "\n".join(lines + ["| " + " | ".join(cells(row)) + " |" for row in rows])


def about(run):
    """Where, when and how quietly it was measured."""
    machine, quiet, noise = run["machine"], run["quiet"], run["noise"]
    where = f"{machine['cpus']} CPUs ({machine['cpu']}), {machine['system']}, kernel {machine['kernel']}"
    if machine["virtual"]:
        where += f", a virtual machine ({machine['virtual']})"
    first = "before other programs" if run["first"] else "with the priority of other programs"
    network = "a network of its own" if run["network"] else "the network of the machine"
    sentence = (f"{run['date']}, {run['speed']} run of {run['rounds']} rounds on {where}; TCP in {network} with "
                f"{machine['congestion']}; it ran {first}. Other programs used {quiet['foreign_cpus']:.2f} CPUs "
                f"meanwhile and the hypervisor took {quiet['stolen_cpus']:.2f}.")
    if quiet["foreign_cpus"] > 0.15:
        sentence += " **The machine was not quiet**: a figure that needs both CPUs at once, such as a floor that polls or a " \
                    "bandwidth, can be wrong by a large factor, and its verdict with it."
    if run["rounds"] < 3:
        sentence += " So few rounds have no spread."
    if noise:
        sentence += f" Noise: the spread of a figure is {noise['median']:.0%} in the median and {noise['p90']:.0%} at most " \
                    "for nine of ten."
    return sentence
