"""Random programs of TensorFlow's Python (random_programs.py) on `weir serve`: fixed seeds, and what went wrong before.

usage: random_programs_interop_test.py WEIR EMPTY_DIRECTORY
"""
import sys

import random_programs

import tensorflow as tf

import cases
from weir_server import WeirServers

tf.compat.v1.disable_eager_execution()
tf.compat.v1.enable_resource_variables()


def check(server, seeds):
    differences = {seed: random_programs.difference(seed, server.target()) for seed in seeds}
    differences = {seed: text for seed, text in differences.items() if text is not None}
    assert not differences, differences


def test_fixed_seeds(server):
    check(server, range(1, 26))


def test_seeds_that_were_bad(server):
    """Updates that were left out, made once too often, or made where TensorFlow makes none; a graph that was refused."""
    check(server, [29, 36, 79, 83, 102, 103, 137])


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
