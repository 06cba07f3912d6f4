"""The table of schemas is what the op registry of the real TensorFlow says.

usage: op_schemas_test.py WRITE_SCHEMAS DIRECTORY
"""
import os
import subprocess
import sys

WRITE_SCHEMAS, DIRECTORY = sys.argv[1:3]
TABLE = os.path.join(os.path.dirname(WRITE_SCHEMAS), "tensorflow.txt")


def test_schemas_are_tensorflows():
    """Lines of the table that TensorFlow would write otherwise."""
    written = subprocess.run([sys.executable, WRITE_SCHEMAS, TABLE], check=True, stdout=subprocess.PIPE).stdout.decode()
    with open(TABLE, encoding="utf-8") as file:
        ours, theirs = file.read().splitlines(), written.splitlines()
    if len(theirs) < 1000:
        return ["TensorFlow wrote only %d lines" % len(theirs)]
    return ["'%s' in the table, TensorFlow says '%s'" % pair for pair in zip(ours, theirs) if pair[0] != pair[1]] + (
        [] if len(ours) == len(theirs) else ["%d lines, TensorFlow writes %d" % (len(ours), len(theirs))])


if __name__ == "__main__":
    complaints = test_schemas_are_tensorflows()
    for complaint in complaints[:20]:
        print(complaint)
    print("[%s] tests/interop:schemas_are_tensorflows (0 ms)" % ("  FAILED  " if complaints else "       OK "))
    sys.exit(1 if complaints else 0)
