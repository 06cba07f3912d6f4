"""Runs the unittest cases of the program that imports it, and reports them in googletest's form, which
tools/count_tests.py counts."""

import sys
import unittest


class CaseByCase(unittest.TextTestResult):

    def addSuccess(self, test):
        print("[       OK ] %s (0 ms)" % test.id())

    def addFailure(self, test, err):
        super().addFailure(test, err)
        print("[  FAILED  ] %s (0 ms)" % test.id())

    addError = addFailure


def run():
    unittest.main(argv=sys.argv[:1], testRunner=unittest.TextTestRunner(resultclass=CaseByCase, verbosity=0))
