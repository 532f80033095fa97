# SPDX-License-Identifier: Apache-2.0
"""Medians, ratios and verdicts. Only functions of values, without input or output.

A figure that could not be measured is None. The ratio of a row is the median over the rounds of ours / reference, both
of the same round, so that a slow round does not count against either.
"""
import statistics

GOAL, MUST, SHORT, NONE = "goal", "must", "short", "-"


def summary(values):
    """{"median", "low", "high", "n"} of the figures that exist, or None. Low and high enclose the middle half."""
    values = sorted(value for value in values if value is not None)
    if not values:
        return None
    return {"median": statistics.median(values), "low": quantile(values, 0.25), "high": quantile(values, 0.75),
            "n": len(values)}


def quantile(ordered, part):
    """Linear between the neighbours, so that it exists for few values."""
    at = part * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def spread(summed):
    """The width of the middle half in parts of the median."""
    if summed is None or summed["n"] < 2 or summed["median"] == 0:
        return None
    return (summed["high"] - summed["low"]) / summed["median"]


def ratios(ours, reference):
    return summary([a / b for a, b in zip(ours, reference) if a is not None and b])


def verdict(ratio, must, goal, less_is_better):
    if ratio is None:
        return NONE

    def reaches(limit):
        return ratio <= limit if less_is_better else ratio >= limit
    return GOAL if reaches(goal) else MUST if reaches(must) else SHORT


def judge_row(row, values):
    """The result of one row of rows.py, as it is stored. `values` has the figures of each case by name."""
    def of(case):
        return values.get(case.name, []) if case else []
    ours = of(row.ours)
    if row.against == "limit":
        reference = [row.limit] * len(ours)
    else:
        reference = of(row.reference())
    ratio = ratios(ours, reference)
    return {
        "id": row.id, "what": row.what, "unit": row.ours.unit, "less_is_better": row.less_is_better,
        "ours": summary(ours), "floor": summary(of(row.floor)) if row.floor else None,
        "rivals": {label: summary(of(case)) for label, case in row.rivals.items()},
        "against": row.against, "limit": row.limit, "must": row.must, "goal": row.goal, "ratio": ratio,
        "verdict": verdict(ratio and ratio["median"], row.must, row.goal, row.less_is_better),
        "spread": spread(ratio),
    }


def noise(case_values):
    """The noise of a run: the median and the 90th percentile of the spreads of all cases with several figures."""
    spreads = sorted(part for part in (spread(summed) for summed in map(summary, case_values)
                                       if summed and summed["n"] > 1) if part is not None)
    if not spreads:
        return None
    return {"median": round(statistics.median(spreads), 4), "p90": round(quantile(spreads, 0.9), 4)}
