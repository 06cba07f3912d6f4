"""Random graphs give what the real TensorFlow gives, and so do their gradients.

usage: tensorflow_test.py CAMPAIGN DIRECTORY
"""
import os
import subprocess
import sys
import time

ORACLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tensorflow_oracle.py")


def test_random_graphs_on_tensorflow(campaign):
    command = [campaign, "--tensorflow", "--graphs=200", "--seed=1", "--keep_going", "--oracle=" + ORACLE]
    return subprocess.run(command, env=dict(os.environ, WEIR_TF_PYTHON=sys.executable)).returncode


if __name__ == "__main__":
    begin = time.time()
    code = test_random_graphs_on_tensorflow(sys.argv[1])
    print("[%s] tests/random_graphs:random_graphs_on_tensorflow (%d ms)" % (
        "  FAILED  " if code else "       OK ", 1000 * (time.time() - begin)))
    sys.exit(1 if code else 0)
