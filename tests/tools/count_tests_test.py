#!/usr/bin/env python3
"""The last line of tools/test is what continuous integration believes: no failure may be lost, no case counted twice."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import case_by_case

COUNT_TESTS = sys.argv[1]

GTEST_XML = """<testsuites tests="3"><testsuite name="A">
<testcase name="passes" status="run" result="completed" classname="A"/>
<testcase name="fails" status="run" result="completed" classname="A"><failure message="1 != 2"/></testcase>
<testcase name="waits" status="run" result="skipped" classname="A"><skipped message="no TensorFlow"/></testcase>
</testsuite></testsuites>"""
BAZEL_XML = """<testsuites><testsuite name="x" tests="1"><testcase name="x" status="run"></testcase></testsuite></testsuites>"""
GTEST_LOG = "[ RUN      ] A.b\n[       OK ] A.b (3 ms)\n[ RUN      ] A.c\n[  SKIPPED ] A.c (0 ms)\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.c\n"


class CountTests(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(self.folder.cleanup)
        self.events = []

    def file(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def result(self, label, status="PASSED", xml=BAZEL_XML, log="", shard=1, attempt=1):
        number = len(self.events)
        self.events.append({
            "id": {"testResult": {"label": label, "run": 1, "shard": shard, "attempt": attempt}},
            "testResult": {"status": status, "testActionOutput": [
                {"name": "test.xml", "uri": "file://" + self.file("%d.xml" % number, xml)},
                {"name": "test.log", "uri": "file://" + self.file("%d.log" % number, log)},
            ]},
        })

    def count(self, bazel_code=0):
        events = self.file("events", "".join(json.dumps(event) + "\n" for event in self.events))
        run = subprocess.run([sys.executable, COUNT_TESTS, events, str(bazel_code)], stdout=subprocess.PIPE, text=True, check=False)
        return run.stdout.splitlines()[-1], run.returncode

    def test_googletest_counts_case_by_case(self):
        self.result("//a:a", "FAILED", GTEST_XML)
        self.assertEqual(self.count(3), ("1 passed, 1 failed, 1 skipped", 1))

    def test_other_tests_count_as_one_case(self):
        self.result("//a:a")
        self.result("//a:b")
        self.assertEqual(self.count(), ("2 passed, 0 failed", 0))

    def test_googletest_lines_of_a_script_count(self):
        self.result("//a:a", log=GTEST_LOG)
        self.assertEqual(self.count(), ("1 passed, 0 failed, 1 skipped", 0))

    def test_a_crash_is_a_failure_beside_what_passed(self):
        self.result("//a:a", "FAILED", BAZEL_XML, GTEST_LOG)
        self.assertEqual(self.count(3), ("1 passed, 1 failed, 1 skipped", 1))

    def test_a_timeout_is_a_failure(self):
        self.result("//a:a", "TIMEOUT", xml="<broken", log="")
        self.assertEqual(self.count(3), ("0 passed, 1 failed", 1))

    def test_the_last_attempt_decides_and_shards_add_up(self):
        self.result("//a:a", "FAILED", attempt=1)
        self.result("//a:a", "PASSED", attempt=2)
        self.result("//a:a", shard=2)
        self.assertEqual(self.count(), ("2 passed, 0 failed", 0))

    def test_a_target_that_did_not_build_is_a_failure(self):
        self.result("//a:a")
        self.events.append({"id": {"targetCompleted": {"label": "//a:b"}}, "completed": {}})
        self.assertEqual(self.count(1), ("1 passed, 1 failed", 1))

    def test_a_build_that_stopped_is_a_failure(self):
        self.events.append({"id": {"pattern": {"pattern": ["//x"]}}, "aborted": {"description": "no such package"}})
        self.assertEqual(self.count(1), ("0 passed, 1 failed", 1))
        self.events.clear()
        self.assertEqual(self.count(37), ("0 passed, 1 failed", 1))

    def test_a_message_may_have_any_character(self):
        self.result("//a:a")
        path = self.file("events", json.dumps(self.events[0]) + "\n\n" + json.dumps({"progress": {"stderr": "a\u0085b\u2028c"}}, ensure_ascii=False) + "\n")
        run = subprocess.run([sys.executable, COUNT_TESTS, path, "0"], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual((run.stdout.splitlines()[-1], run.returncode), ("1 passed, 0 failed", 0))

    def test_a_list_of_events_that_is_cut_is_a_failure(self):
        self.result("//a:a")
        path = self.file("cut", json.dumps(self.events[0]) + "\n" + json.dumps(self.events[0])[:40])
        run = subprocess.run([sys.executable, COUNT_TESTS, path, "0"], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual((run.stdout.splitlines()[-1], run.returncode), ("1 passed, 1 failed", 1))


if __name__ == "__main__":
    case_by_case.run()
