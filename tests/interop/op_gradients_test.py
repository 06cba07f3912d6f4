"""Which ops have gradients is what the gradient registry of the real TensorFlow says.

usage: op_gradients_test.py OPS_MD DIRECTORY

An op whose gradient TensorFlow registers as None stops gradients here too. One with a gradient there has one here, or
says that nobody has written it (GradientMissing): those are listed. Weir may know more gradients than TensorFlow.
"""
import os
import re
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import tensorflow as tf  # noqa: E402
from tensorflow.python.framework import ops  # noqa: E402

OPS_MD = sys.argv[1]
EXCUSED = {
    op: "its gradient in TensorFlow is a function that gives None for every input"
    for op in ("ArgMax", "ArgMin", "Ceil", "Floor", "FloorDiv", "LoopCond", "Rint", "Round", "TruncateDiv")
}


def weirs_ops():
    """Op -> "no gradient", "gradient not written yet" or "differentiable"."""
    found, op = {}, None
    with open(OPS_MD, encoding="utf-8") as file:
        for line in file:
            if line.startswith("### "):
                op = line[4:].strip()
            match = re.search(r"(no gradient|gradient not written yet|differentiable)$", line.strip())
            if op and line.startswith("- ") and match:
                found[op] = match.group(1)
    return found


def tensorflows_gradient(op):
    """"stops", "flows", or None where TensorFlow registers nothing (a gradient through it is an error there)."""
    try:
        return "stops" if ops.gradient_registry.lookup(op) is None else "flows"
    except LookupError:
        return None


def test_gradients_are_registered_as_in_tensorflow():
    """Ops that stop gradients in one of both only."""
    complaints, missing = [], []
    here = weirs_ops()
    if len(here) < 100:
        return ["only %d ops in %s" % (len(here), OPS_MD)]
    for op, kind in sorted(here.items()):
        there = tensorflows_gradient(op)
        if op in EXCUSED:
            continue
        if there == "stops" and kind != "no gradient":
            complaints.append("%s stops gradients in TensorFlow, here it is: %s" % (op, kind))
        if there == "flows" and kind == "no gradient":
            complaints.append("%s has a gradient in TensorFlow; write it, or GradientMissing" % op)
        if kind == "gradient not written yet":
            missing.append(op)
    print("%d ops, %d gradients not written yet: %s" % (len(here), len(missing), ", ".join(missing) or "-"))
    return complaints


if __name__ == "__main__":
    tf.compat.v1.gradients  # registers the gradients of all families
    found_complaints = test_gradients_are_registered_as_in_tensorflow()
    for complaint in found_complaints:
        print(complaint)
    print("[%s] tests/interop:gradients_are_registered_as_in_tensorflow (0 ms)" % (
        "  FAILED  " if found_complaints else "       OK "))
    sys.exit(1 if found_complaints else 0)
