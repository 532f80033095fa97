# SPDX-License-Identifier: Apache-2.0
"""Compares two runs of the suite by their ratios.

A ratio is worse when it moved away from its goal by more than the noise: by more than LEAST, and by more than the
spreads of both runs together. The ratios of two machines may differ for other reasons, which the text then names.
"""

LEAST = 0.10  # Differences up to this are no regression, however quiet both runs were.
WORSE, MISSING, SKIPPED, SAME, BETTER = "worse", "missing", "skipped", "same", "better"


def tolerance(old, new):
    """By how much the ratio of a row may change between two results of it."""
    return max(LEAST, (old["spread"] or 0) + (new["spread"] or 0))


def compare_row(old, new):
    """Returns (judgement, sentence) for the results of one row."""
    name = f"{old['id']} {old['what']}"
    if new is None:
        return SKIPPED, f"{name}: not part of this run"
    if new["ours"] is None:
        return MISSING, f"{name}: could not be measured"
    if old["ratio"] is None or new["ratio"] is None:
        return SKIPPED, f"{name}: no {old['against']} to compare with"
    before, after = old["ratio"]["median"], new["ratio"]["median"]
    change = after / before if new["less_is_better"] else before / after
    allowed = tolerance(old, new)
    sentence = (f"{name}: {before:.3g} x {old['against']} before, {after:.3g} x now "
                f"({change - 1:+.0%} worse, noise {allowed:.0%})")
    if change > 1 + allowed:
        return WORSE, sentence
    if 1 / change > 1 + allowed:
        return BETTER, sentence
    return SAME, sentence


def compare(old, new):
    """Returns [(judgement, sentence)] for two stored runs, in the order of the old one."""
    rows = {row["id"]: row for row in new["rows"]}
    return [compare_row(row, rows.get(row["id"])) for row in old["rows"]]


def differences(old, new):
    """What else differs between two runs, as sentences."""
    notes = [f"{key}: {old['machine'].get(key)} then, {new['machine'].get(key)} now"
             for key in ("cpu", "cpus", "kernel", "congestion") if old["machine"].get(key) != new["machine"].get(key)]
    return notes + ([f"{old['speed']} run then, {new['speed']} run now"] if old["speed"] != new["speed"] else [])


def failed(findings):
    return any(judgement in (WORSE, MISSING) for judgement, _ in findings)
