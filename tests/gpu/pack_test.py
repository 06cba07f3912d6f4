#!/usr/bin/env python3
"""What tools/gpu_check packs: small, whole, and nothing of the machine that it runs on is needed, not even the C library."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.getcwd(), "tests", "tools"))
import case_by_case  # pylint: disable=wrong-import-position

GPU_CHECK = sys.argv[1]
BUILT = os.getcwd()  # has tests/gpu/gpu_check
MIB = 1 << 20
# The libraries of NVIDIA belong to the driver or the toolkit of the other machine.
OF_NVIDIA = ("libcuda", "libcudnn", "libcublas", "libnccl", "libnvrtc")


def output_of(command, environment=None):
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment)
    return run.returncode, run.stdout


class Pack(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"])
        cls.folder = os.path.join(cls.temporary.name, "pack")
        code, words = output_of([GPU_CHECK, "--pack=" + cls.folder, "--built=" + BUILT])
        assert code == 0, words

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def copy(self):
        """The pack as it arrives somewhere, and a folder for results."""
        temporary = tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(temporary.cleanup)
        there = os.path.join(temporary.name, "a folder with spaces")
        shutil.copytree(self.folder, there)
        return there, os.path.join(temporary.name, "results")

    def unpacked(self):
        there, results = self.copy()
        subprocess.run(["tar", "-C", there, "-xzf", os.path.join(there, "files.tar.gz")], check=True)
        return os.path.join(there, "files"), results

    def test_it_is_small_and_two_files(self):
        self.assertEqual(sorted(os.listdir(self.folder)), ["files.tar.gz", "run"])
        size = sum(os.path.getsize(os.path.join(self.folder, name)) for name in os.listdir(self.folder))
        self.assertLess(size, 64 * MIB)

    def test_every_library_is_there_and_none_of_nvidia(self):
        files, _ = self.unpacked()
        libraries = os.path.join(files, "lib")
        code, words = output_of([os.path.join(libraries, "ld-linux-x86-64.so.2"), "--inhibit-cache", "--library-path", libraries,
                                 "--list", os.path.join(files, "gpu_check")])
        self.assertEqual(code, 0, words)
        found = [line.split("=>")[1].split("(")[0].strip() for line in words.splitlines() if "=>" in line]
        self.assertGreater(len(found), 5)
        for library in found:
            self.assertEqual(os.path.dirname(library), libraries, words)
        # What NVIDIA's libraries ask for, of the same C library.
        self.assertLessEqual({"libc.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6", "libstdc++.so.6"},
                             set(os.listdir(libraries)))
        for library in os.listdir(libraries):
            self.assertFalse(library.startswith(OF_NVIDIA), library)

    def test_it_is_stripped(self):
        files, _ = self.unpacked()
        _, words = output_of(["readelf", "--sections", "--wide", os.path.join(files, "gpu_check")])
        self.assertIn(".dynsym", words)
        self.assertNotIn(".symtab", words)

    def test_without_an_environment_and_a_gpu_it_says_that_it_skips(self):
        there, results = self.copy()
        # Once unpacking, and once unpacked.
        for _ in range(2):
            code, words = output_of([os.path.join(there, "run"), "--results=" + results],
                                    {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "-1"})
            self.assertEqual(code, 3, words)
            self.assertRegex(words.splitlines()[-1], "^0 passed, 0 failed, [0-9]{3,} skipped$")
        with open(os.path.join(results, "gpu_check.json"), encoding="utf-8") as file:
            self.assertEqual(len(json.load(file)["parts"]), 9)

    def test_flags_are_the_checks(self):
        there, _ = self.copy()
        code, words = output_of([os.path.join(there, "run"), "--list"])
        self.assertEqual((code, words.split()[:2]), (0, ["doctor", "kernels"]))
        code, words = output_of([os.path.join(there, "run"), "--parts=none"])
        self.assertEqual(code, 2)
        self.assertIn("no part is named 'none'", words)

    def test_in_an_empty_root_a_rehearsal_passes(self):
        """No other file than those of the pack can be opened."""
        if output_of(["unshare", "--map-root-user", "true"])[0] != 0:
            self.skipTest("no namespaces of users here")
        files, _ = self.unpacked()
        root = os.path.join(os.path.dirname(files), "root")
        os.makedirs(os.path.join(root, "dev"))
        # It cannot be made there without rights: nothing reads it.
        with open(os.path.join(root, "dev", "null"), "wb"):
            pass
        shutil.move(files, os.path.join(root, "files"))
        code, words = output_of(["unshare", "--map-root-user", "--root=" + root, "/files/lib/ld-linux-x86-64.so.2", "--library-path",
                                 "/files/lib", "/files/gpu_check", "--rehearsal", "--parts=doctor,errors", "--results=/results"],
                                {})
        self.assertEqual(code, 0, words)
        self.assertRegex(words.splitlines()[-1], "^[0-9]{2} passed, 0 failed, 0 skipped$")

    def test_what_is_refused(self):
        with tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"]) as folder:
            with open(os.path.join(folder, "something"), "wb"):
                pass
            for flags, why in ((["--pack=" + folder, "--built=" + BUILT], "exists and is no pack"),
                               (["--pack=" + folder + "/new", "--built=" + BUILT, "--parts=doctor"], "is for the pack's run"),
                               (["--pack=" + folder + "/new", "--built=" + folder], "no tests/gpu/gpu_check there")):
                code, words = output_of([GPU_CHECK, *flags])
                self.assertEqual(code, 2, words)
                self.assertIn(why, words)
            self.assertEqual(os.listdir(folder), ["something"])

    def test_a_pack_is_replaced(self):
        there, _ = self.copy()
        os.remove(os.path.join(there, "run"))
        code, words = output_of([GPU_CHECK, "--pack=" + there, "--built=" + BUILT])
        self.assertEqual(code, 0, words)
        self.assertEqual(sorted(os.listdir(there)), ["files.tar.gz", "run"])


if __name__ == "__main__":
    case_by_case.run()
