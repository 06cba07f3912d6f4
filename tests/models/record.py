#!/usr/bin/env python3
"""Records what TensorFlow computes for the models that the tests of this folder build.

usage: record.py FILE           writes FILE (recorded.json)
       record.py --check FILE   computes everything again and compares

Each entry is a tensor, or a list of strings, by name. Inputs and variables are not recorded: both sides fill them with
pattern(), whose numbers are exact in every type.
"""

import json
import math
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import record_averages
import record_embedding
import record_layers
import record_losses
import record_metrics
import record_training
from recorder import Recorder


def main():
    check = sys.argv[1] == "--check"
    path = sys.argv[-1]
    tf.compat.v1.disable_eager_execution()
    tf.compat.v1.enable_resource_variables()
    recorder = Recorder()
    for module in [record_averages, record_embedding, record_layers, record_losses, record_metrics, record_training]:
        module.record(recorder)
    if not check:
        with open(path, "w", encoding="utf-8") as file:
            lines = ["%s: %s" % (json.dumps(name), json.dumps(entry)) for name, entry in sorted(recorder.entries.items())]
            file.write("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    with open(path, encoding="utf-8") as file:
        return compare(json.load(file), recorder.entries)


def compare(recorded, now):
    """Prints what differs, in googletest's form for the counting of tests."""
    wrong = sorted(set(recorded) ^ set(now))
    for name in sorted(set(recorded) & set(now)):
        a, b = recorded[name], now[name]
        if isinstance(a, list) or isinstance(b, list):
            same = a == b
        else:
            same = a["shape"] == b["shape"] and all(
                x == y or not isinstance(x, str) and math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-6)
                for x, y in zip(a["values"], b["values"]))
        if not same:
            wrong.append(name)
    for name in wrong:
        print("%s is recorded as\n  %s\nand TensorFlow now gives\n  %s" % (name, recorded.get(name), now.get(name)))
    print("[%s] tests/models:recorded_numbers (0 ms)" % ("  FAILED  " if wrong else "       OK "))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
