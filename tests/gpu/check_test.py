#!/usr/bin/env python3
"""The command line of a check, with parts that fail, crash, hang and lose their device on purpose."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.getcwd(), "tests", "tools"))
import case_by_case  # pylint: disable=wrong-import-position

PROGRAM = sys.argv[1]


class Check(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(temporary.cleanup)
        self.results = os.path.join(temporary.name, "new", "results")

    def check(self, *flags):
        run = subprocess.run([PROGRAM, "--results=" + self.results, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, check=False)
        return run.returncode, run.stdout, run.stderr

    def document(self):
        with open(os.path.join(self.results, "on_purpose.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_a_good_part(self):
        code, words, _ = self.check("--parts=good")
        self.assertEqual(code, 0)
        self.assertEqual(words.splitlines()[-1], "2 passed, 0 failed, 0 skipped")
        document = self.document()
        self.assertEqual((document["passed"], document["failed"], document["skipped"]), (2, 0, 0))
        self.assertEqual(document["on"], "purpose")
        self.assertEqual(document["metrics"], [{"peer": "weir", "metric": "of_good", "value": 2.5, "unit": "us"}])

    def test_what_fails_crashes_or_hangs_has_failed_and_the_others_run(self):
        for part, why in (("failing", "on purpose"), ("crashing", "killed by signal 11"), ("hanging", "longer than 1s")):
            code, words, _ = self.check("--parts=%s,good" % part)
            self.assertEqual(code, 1, part)
            self.assertEqual(words.splitlines()[-1], "3 passed, 1 failed, 0 skipped", part)
            [failure] = self.document()["parts"][0]["failures"]
            self.assertEqual(failure["test"], part.capitalize() + ".First")
            self.assertIn(why, failure["why"])
            self.assertIn("FAILED %s.First" % part.capitalize(), words)

    def test_a_device_that_is_lost_takes_another_process(self):
        code, words, _ = self.check("--parts=losing")
        self.assertEqual(code, 0)
        self.assertEqual(words.splitlines()[-1], "2 passed, 0 failed, 0 skipped")
        self.assertEqual(self.document()["parts"][0]["processes"], 2)

    def test_a_check_of_which_nothing_ran_has_an_exit_code_of_its_own(self):
        code, words, _ = self.check("--parts=skipping")
        self.assertEqual(code, 3)
        self.assertEqual(words.splitlines()[-1], "0 passed, 0 failed, 1 skipped")
        self.assertIn("skipped 1: there is no such thing here", words)
        self.assertEqual(self.document()["parts"][0]["skipped_for"], {"there is no such thing here": 1})
        self.assertEqual(self.check("--parts=skipping,good")[0], 0)

    def test_all_parts_are_run_and_each_has_a_log(self):
        code, words, _ = self.check()
        self.assertEqual(code, 1)
        self.assertEqual(words.splitlines()[-1], "7 passed, 3 failed, 1 skipped")
        self.assertEqual(sorted(os.listdir(self.results)), sorted(
            ["on_purpose.json"] + [part + ".log" for part in
                                   ("crashing", "empty", "failing", "good", "hanging", "losing", "skipping")]))

    def test_parts_whose_turn_does_not_come_are_skipped(self):
        code, words, _ = self.check("--parts=hanging,good", "--minutes=0.01")
        self.assertEqual(code, 3)
        self.assertNotIn("FAILED", words)
        self.assertIn("skipped 1: the minutes were over", words)
        self.assertEqual(self.document()["parts"][1]["skipped"], 1)

    def test_flags(self):
        self.assertEqual(self.check("--list")[1].split(), ["good", "failing", "crashing", "hanging", "skipping", "losing", "empty"])
        self.assertIn("--minutes=N", self.check("--help")[1])
        for flags, words in ((["--parts=nice"], "no part is named 'nice': there are good,failing"),
                             (["--minutes=soon"], "--minutes=soon is no number of minutes"),
                             (["--minutes=-1"], "--minutes=-1 is no number of minutes"),
                             (["now"], "unknown argument 'now'")):
            code, _, errors = self.check(*flags)
            self.assertEqual(code, 2)
            self.assertIn(words, errors)


if __name__ == "__main__":
    case_by_case.run()
