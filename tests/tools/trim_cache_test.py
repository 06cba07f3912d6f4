#!/usr/bin/env python3
"""A folder of build results stays within its size, and what was used last stays in it."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

import case_by_case

TRIM_CACHE = sys.argv[1]
HOUR_S = 3600


class TrimCache(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def file(self, name, size, hours_ago, first_bytes=b""):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(first_bytes + bytes(size - len(first_bytes)))
        used = time.time() - hours_ago * HOUR_S
        os.utime(path, (used, used))

    def trim(self, *arguments):
        run = subprocess.run([sys.executable, TRIM_CACHE, *arguments], stderr=subprocess.PIPE, text=True, check=False)
        return run.returncode, run.stderr

    def left(self):
        return sorted(name for _, _, names in os.walk(self.folder) for name in names)

    def test_what_was_not_used_for_longest_goes_first(self):
        for hour in range(10):
            self.file(f"cas/{hour}", 1000, hours_ago=hour)
        code, words = self.trim(self.folder, "0.000008")
        self.assertEqual(code, 0)
        self.assertEqual(self.left(), [str(hour) for hour in range(7)])
        self.assertIn("Removed 0.0 GB", words)

    def test_programs_go_before_objects(self):
        self.file("cas/program", 9_000_000, hours_ago=1)
        for hour in range(5):
            self.file(f"cas/object{hour}", 500_000, hours_ago=10 + hour)
        self.assertEqual(self.trim(self.folder, "0.01")[0], 0)
        self.assertEqual(self.left(), [f"object{hour}" for hour in range(5)])

    def test_a_precompiled_header_stays_with_the_objects_that_were_made_with_it(self):
        self.file("cas/header", 9_000_000, hours_ago=10, first_bytes=b"gpch")
        self.file("cas/header_of_long_ago", 9_000_000, hours_ago=1000, first_bytes=b"gpch")
        self.file("cas/program", 9_000_000, hours_ago=1)
        for hour in range(5):
            self.file(f"cas/object{hour}", 500_000, hours_ago=5 + hour)
        self.assertEqual(self.trim(self.folder, "0.013")[0], 0)
        self.assertEqual(self.left(), ["header"] + [f"object{hour}" for hour in range(5)])

    def test_a_folder_within_its_size_stays_as_it_is(self):
        self.file("ac/a", 10, hours_ago=1000)
        self.file("cas/b", 1000, hours_ago=1000)
        self.assertEqual(self.trim(self.folder, "1"), (0, ""))
        self.assertEqual(self.left(), ["a", "b"])

    def test_files_being_written_stay_for_a_day(self):
        self.file("young", 10, hours_ago=23)
        self.file("old", 10, hours_ago=25)
        self.file("cas/old_result", 10, hours_ago=25)
        self.assertEqual(self.trim(self.folder, "1")[0], 0)
        self.assertEqual(self.left(), ["old_result", "young"])

    def test_no_folder_is_nothing_to_do(self):
        self.assertEqual(self.trim(os.path.join(self.folder, "none"), "1"), (0, ""))

    def test_wrong_arguments_are_explained(self):
        for arguments in ([], [self.folder], [self.folder, "-1"], [self.folder, "nan"], [self.folder, "x"], [self.folder, "1", "2"]):
            code, words = self.trim(*arguments)
            self.assertEqual(code, 2, arguments)
            self.assertIn("usage:", words)


if __name__ == "__main__":
    case_by_case.run()
