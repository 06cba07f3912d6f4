"""Random ops (random_ops.py) on `weir serve`: fixed seeds, and what went wrong before.

usage: random_ops_interop_test.py WEIR EMPTY_DIRECTORY
"""
import sys

import random_ops

import tensorflow as tf

import cases
from weir_server import WeirServers

tf.compat.v1.disable_eager_execution()


def check(server, seeds, names=None):
    counts, findings, _ = random_ops.judge_all(server.target(), names or random_ops.drawable_ops(), seeds, lambda: server.is_running("local"))
    assert not findings, findings
    # A server that refuses everything would agree where TensorFlow refuses, too.
    assert counts["same"] >= len(seeds) / 4, counts


def test_fixed_seeds(server):
    check(server, range(1, 201))


def test_ops_that_were_bad(server):
    """Distributions that are broadcast, summaries whose tags repeat."""
    check(server, range(1, 61), ["SoftmaxCrossEntropyWithLogits", "ScalarSummary"])


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
