#!/usr/bin/env python3
"""tools/gpu_check's program without a GPU: it says what it skips, and a rehearsal passes all of it."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.getcwd(), "tests", "tools"))
import case_by_case  # pylint: disable=wrong-import-position

PROGRAM, PEER = sys.argv[1:3]
PARTS = ["doctor", "kernels", "training", "errors", "collectives", "benchmarks", "pytorch", "graphs", "stress"]
# They look at lists, and at no device.
NOT_OF_GPUS = {"Kernels.EveryOpOfGpusIsCalled", "CudaOptimizerOps.AreAllTested"}


class GpuCheck(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(temporary.cleanup)
        self.results = temporary.name

    def check(self, *flags):
        # No GPU is seen, whatever the machine has.
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES="-1", WEIR_GPU_CHECK_PEER=PEER)
        run = subprocess.run([PROGRAM, "--results=" + self.results, *flags], stdout=subprocess.PIPE, text=True, check=False,
                             env=environment)
        with open(os.path.join(self.results, "gpu_check.json"), encoding="utf-8") as file:
            return run.returncode, run.stdout, json.load(file)

    def test_without_a_gpu_every_part_says_why_it_is_skipped(self):
        code, words, document = self.check()
        self.assertEqual(code, 3, words)
        self.assertEqual((document["passed"], document["failed"]), (0, 0))
        self.assertEqual([part["name"] for part in document["parts"]], PARTS)
        for part in document["parts"]:
            [(reason, count)] = part["skipped_for"].items()
            self.assertGreater(count, 0)
            if part["name"] != "pytorch":
                self.assertRegex(reason, "there is no NVIDIA driver on this machine|the NVIDIA driver sees no GPU|"
                                 "the NVIDIA driver is too old|this program was built without CUDA")

    def test_a_rehearsal_passes_and_each_test_is_in_one_part(self):
        code, words, document = self.check("--rehearsal")
        self.assertEqual(code, 0, words)
        self.assertEqual(document["on"], "a stand-in, for rehearsal")
        passed = {part["name"]: part["passed"] for part in document["parts"]}
        self.assertGreater(passed["kernels"], 600)
        processes = {part["name"]: part["processes"] for part in document["parts"]}
        self.assertEqual(processes["kernels"], 1)
        self.assertGreater(processes["errors"], 2)  # devices were lost
        self.assertLessEqual({"mlp_b2_step", "mlp_b2_step_kernel_by_kernel", "resnet20_b2_fp32", "resnet20_b2_bf16"},
                             {metric["metric"] for metric in document["metrics"]})
        listed, suite = set(), ""
        names = subprocess.run([PROGRAM, "--gtest_list_tests"], stdout=subprocess.PIPE, text=True, check=True).stdout
        for line in names.splitlines():
            if line.startswith("  "):
                listed.add(suite + line.split("#")[0].strip())
            else:
                suite = line.split("#")[0].strip()
        run = []
        for part in PARTS:
            with open(os.path.join(self.results, part + ".log"), encoding="utf-8", errors="replace") as log:
                run += {line.split("] ", 1)[1].strip() for line in log if line.startswith("[ RUN      ] ")}
        self.assertEqual(len(run), len(set(run)))
        self.assertEqual(listed - set(run), NOT_OF_GPUS)


if __name__ == "__main__":
    case_by_case.run()
