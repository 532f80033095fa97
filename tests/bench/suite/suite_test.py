#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the judgement of the suite with stored figures: nothing is measured."""
import json
import os
import unittest
from xml.etree import ElementTree

import check
import document
import judge
import obstacles
import plot
import rows
import text

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")


def stored(name):
    with open(os.path.join(FIXTURES, name), encoding="utf-8") as file:
        return json.load(file)


class Judgement(unittest.TestCase):
    def test_quantiles_are_between_the_figures(self):
        summed = judge.summary([4, None, 1, 2, 3, 5])
        self.assertEqual((summed["median"], summed["low"], summed["high"], summed["n"]), (3, 2, 4, 5))
        self.assertIsNone(judge.summary([None]))

    def test_a_ratio_is_of_one_round(self):
        # The second round was slow for both, the third has no reference.
        self.assertEqual(judge.ratios([2, 20, 2], [1, 10, None])["median"], 2)

    def test_a_verdict_names_the_best_limit_that_is_reached(self):
        self.assertEqual(judge.verdict(1.3, 1.6, 1.3, True), judge.GOAL)
        self.assertEqual(judge.verdict(1.5, 1.6, 1.3, True), judge.MUST)
        self.assertEqual(judge.verdict(1.7, 1.6, 1.3, True), judge.SHORT)
        self.assertEqual(judge.verdict(0.9, 0.88, 0.95, False), judge.MUST)
        self.assertEqual(judge.verdict(None, 1, 1, True), judge.NONE)

    def test_noise_is_that_of_repeated_figures(self):
        self.assertEqual(judge.noise([[1, 1, 1], [5]])["median"], 0)
        self.assertIsNone(judge.noise([[5], [None]]))


class Check(unittest.TestCase):
    def judgements(self, name):
        findings = check.compare(stored("before.json"), stored(name))
        return {sentence.split()[0]: judgement for judgement, sentence in findings}, check.failed(findings)

    def test_the_same_run_is_no_regression(self):
        judgements, failed = self.judgements("before.json")
        self.assertEqual(set(judgements.values()), {check.SAME})
        self.assertFalse(failed)

    def test_a_ratio_beyond_the_noise_is_a_regression(self):
        judgements, failed = self.judgements("worse.json")
        self.assertEqual(judgements, {"S1": check.WORSE, "S6": check.WORSE, "W1": check.SAME, "C4": check.SAME})
        self.assertTrue(failed)

    def test_a_row_that_cannot_be_measured_fails(self):
        judgements, failed = self.judgements("missing.json")
        self.assertEqual(judgements, {"S1": check.MISSING, "S6": check.BETTER, "W1": check.SKIPPED, "C4": check.SKIPPED})
        self.assertTrue(failed)

    def test_another_machine_is_named(self):
        self.assertEqual(check.differences(stored("before.json"), stored("before.json")), [])
        self.assertEqual(check.differences(stored("before.json"), stored("worse.json")), ["cpus: 2 then, 4 now"])


class Rows(unittest.TestCase):
    def test_every_row_has_a_name_a_reference_and_an_obstacle(self):
        for speed in ("tiny", "quick", "full"):
            table = rows.build(speed)
            self.assertEqual(len({row.id for row in table}), len(table))
            for row in table:
                self.assertTrue(row.limit if row.against == "limit" else row.reference(), row.id)
                self.assertTrue(obstacles.reason(row.id))
                better = row.goal <= row.must if row.less_is_better else row.goal >= row.must
                self.assertTrue(better, row.id)

    def test_one_name_is_one_case(self):
        names = {}
        for row in rows.build("full"):
            for case in row.cases():
                self.assertEqual(names.setdefault(case.name, case), case)


class Output(unittest.TestCase):
    def test_figures_have_three_digits(self):
        self.assertEqual([text.number(value) for value in (0.1234, 1.234, 12.34, 123.4, 12345)],
                         ["0.123", "1.23", "12.3", "123", "12,345"])

    def test_the_document_is_replaced_only_between_the_markers(self):
        run = stored("before.json")
        before = f"a\n{document.BEGIN}\nold\n{document.END}\nz\n"
        after = document.replaced(before, run)
        self.assertTrue(after.startswith("a\n") and after.endswith("\nz\n"))
        self.assertNotIn("old", after)
        self.assertIn("| S1 |", after)
        self.assertEqual(document.replaced(after, run), after)
        with self.assertRaises(ValueError):
            document.replaced("no markers", run)

    def test_a_chart_is_well_formed_and_inside_its_frame(self):
        chart = {"file": "x.svg", "x": "bytes", "y": "us", "panels": [
            {"title": "A & B", "series": [{"label": "<one>", "points": [[8, 0.2], [1048576, 90.0]]}]}]}
        picture = ElementTree.fromstring(plot.draw(chart))
        for dot in picture.iter("{http://www.w3.org/2000/svg}circle"):
            self.assertTrue(0 < float(dot.get("cx")) < plot.WIDTH and 0 < float(dot.get("cy")) < plot.HEIGHT)
        one = {**chart, "panels": [{"title": "t", "series": [{"label": "l", "points": [[2, 10.0]]}]}]}
        ElementTree.fromstring(plot.draw(one))


if __name__ == "__main__":
    unittest.main()
