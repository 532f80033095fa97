#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of rdma-core's package python3-pyverbs whose file names are given, and prints one line for each:
ok, skip or fail, and the test's name.

usage: pyverbs_run.py TESTS_DIR --dev NAME --port 1 --gid N FILE...
"""
import importlib.machinery
import os
import sys
import unittest

folder = sys.argv.pop(1)
sys.path.insert(0, folder)
from args_parser import parser  # noqa: E402

importlib.machinery.SourceFileLoader("tests", os.path.join(folder, "__init__.py")).load_module()
files = [word for word in sys.argv[1:] if word.startswith("test_")]
sys.argv = [sys.argv[0]] + [word for word in sys.argv[1:] if not word.startswith("test_")]
parser.parse_args()


class Lines(unittest.TestResult):
    def say(self, verdict, test):
        print(verdict, test.id().removeprefix("tests."), flush=True)

    def addSuccess(self, test):
        self.say("ok", test)

    def addSkip(self, test, reason):
        self.say("skip", test)

    def addFailure(self, test, err):
        self.say("fail", test)

    addError = addFailure


for name in files:
    unittest.defaultTestLoader.loadTestsFromName("tests." + name).run(Lines())
