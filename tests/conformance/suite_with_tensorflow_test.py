"""Every call of the conformance suite gives what the real TensorFlow gives, and so does its gradient.

usage: suite_with_tensorflow_test.py SUITE_WRITER DIRECTORY [OP]
suite_writer.cc says what it writes. Prints one line in the form of googletest for each family of results; the exit
code is 1 when a call differs. With OP, only calls of that op.
"""
import collections
import os
import subprocess
import sys
import time

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

WRITER, DIRECTORY = sys.argv[1:3]
OPS = sys.argv[3:4]
tf1 = tf.compat.v1
bfloat16 = tf.bfloat16.as_numpy_dtype
TOLERANCE = {np.dtype(np.float32): 4e-6, np.dtype(np.float64): 4e-13, np.dtype(np.float16): 4e-3,
             np.dtype(bfloat16): 3.2e-2, np.dtype(np.complex64): 4e-6, np.dtype(np.complex128): 4e-13}
# What TensorFlow says where it has no kernel for the dtypes, or no gradient.
NO_ANSWER = (tf.errors.UnimplementedError, LookupError)
NO_ANSWER_TEXTS = ("No OpKernel was registered", "no gradient defined", "only supports NHWC", "only supports dilated rates of 1", "not yet support",
                   "is not in the list of allowed values", "Op does not support", "Missing 0-th output",
                   "cannot be converted to a boolean", "tensor_in must not be empty",
                   "Op type not registered '_FusedElementwise'")
# Where TensorFlow's Python cannot build a gradient, or a kernel refuses what its definition allows.
FAULTS = ("Input 'y' of 'FloorMod' Op has type int32 that does not match type int64",
          "'DynamicStitch' Op have types [int64, int64] that do not match expected type int32",
          "Value passed to parameter 'shape' has DataType int16",
          "Calculated input gradient shape",
          "Value passed to parameter 'a' has DataType",  # Digamma's gradient in half
          "Input 'y' of 'AddV2' Op has type int32 that does not match type int",  # TopKV2's, of other indices
          "doesn't match computed: actual",  # gradients of dilated depthwise convolutions
          "only support NHWC tensor format",
          "Value passed to parameter 'num_segments' has DataType int16",
          "Shape must be at least rank 1 but is rank 0 for '{{node gradients/tested_grad/ScatterNd}}",
          "Shape must be at least rank 1 but is rank 0 for '{{node tested}} = ScatterNd",
          "Shape must be at least rank 1 but is rank 0 for '{{node tested}} = TensorScatter",
          "must match dimensions [0,1) of updates",
          "Indices and updates specified for empty output",
          "Updates shape must have rank at least one",
          "received empty tensor",  # the second derivative of MaxPool3D
          "not less than 0",  # MirrorPad of nothing by nothing
          "does not index into",  # its gradients forget bad_indices_policy
          "Inner dimension should be greater than zero",
          "WhereOp : Unhandled input dimensions: 0",
          "Invalid reduction dimension",  # TensorStridedSliceUpdate's, of a value of more dimensions than the slice
          "Shape must be rank -1 but is rank",  # EnsureShape of any shape
          "input_min must be a scalar.")  # QuantizeAndDequantizeV2 and V4 with an axis and the bounds that it wants


class Difference(Exception):
    pass


def is_inexact(dtype):
    return np.dtype(dtype) in TOLERANCE


def is_denormal(value):
    """Where TensorFlow takes a number for 0."""
    if value.dtype not in (np.float32, np.float64):
        return np.zeros(value.shape, bool)
    return (value != 0) & (np.abs(value) < np.finfo(value.dtype).tiny)


def as_integers(array):
    """TensorFlow gives quantized numbers as plain integers; make_ndarray gives a record of one integer for each."""
    array = np.asarray(array)
    return array if array.dtype.names is None else array.view(array.dtype[0])


def check(what, found, wanted, tolerance, ignored):
    found = as_integers(found)
    # As an array of its own type a string would lose the zero bytes at its end.
    found, wanted = np.asarray(found), np.array(wanted, object) if isinstance(wanted, bytes) else np.asarray(wanted)
    if wanted.dtype.kind in "SU":
        wanted = wanted.astype(object)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise Difference("%s is %s%s, TensorFlow gives %s%s" % (what, found.dtype, found.shape, wanted.dtype, wanted.shape))
    if is_inexact(wanted.dtype):
        wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
        allowed = max(tolerance, TOLERANCE[wanted.dtype])
        a, b = found.astype(wide), wanted.astype(wide)
        same = np.isclose(a, b, rtol=allowed, atol=allowed, equal_nan=True) | is_denormal(wanted)
    else:
        a, b = found, wanted
        same = np.asarray(a == b)
    if ignored is not None and ignored.shape == same.shape:
        same |= ignored
    if not np.all(same):
        at = tuple(np.argwhere(~np.atleast_1d(same))[0])
        raise Difference("%s at %s is %r, TensorFlow gives %r" % (
            what, list(map(int, at)), np.atleast_1d(a)[at], np.atleast_1d(b)[at]))


def replace_top_k(graph, node):
    """TensorFlow refuses TopK in graphs of today, and its kernel cannot be made in older ones: it asks for an attr that
    the op does not have. TopKV2 is the same with k as an input."""
    if node.op != "TopK":
        return
    node.op = "TopKV2"
    k = graph.node.add(name="k_of_" + node.name, op="Const")
    k.attr["dtype"].type = tf.int32.as_datatype_enum
    k.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(node.attr["k"].i, tf.int32))
    node.input.append(k.name)
    del node.attr["k"]


def parts_of(graph_def):
    """The graph without what Weir found, and the values of all Consts."""
    values, graph = {}, tf1.GraphDef(versions=graph_def.versions)
    for node in graph_def.node:
        if node.op == "Const" and node.name != "tested":
            values[node.name] = tf.make_ndarray(node.attr["value"].tensor)
        else:
            graph.node.add().CopyFrom(node)
            replace_top_k(graph, graph.node[-1])
    graph.versions.CopyFrom(tf.Graph().as_graph_def().versions)
    if any(node.op.startswith("BatchNormWithGlobalNormalization") for node in graph.node):
        graph.versions.producer = 8  # newer graphs may not have it
    return graph, values


def check_that_tensorflow_computes(node, values):
    """LookupError where what TensorFlow gives is wrong, or memory that it has not written."""
    inputs = [value for name, value in values.items() if name[0] == "x"]
    if node.op == "Round" and inputs[0].dtype.kind == "i":
        raise LookupError("zeros for whole numbers; tf.round does not ask the op for them")
    if node.op == "Empty" and not node.attr["init"].b:
        raise LookupError("what was in memory before")
    if node.op.startswith("DepthwiseConv2dNative") and any(value.size == 0 for value in inputs):
        raise LookupError("nothing is written for an empty batch")
    if node.op.startswith("FusedBatchNorm") and inputs[0].size == 0:
        raise LookupError("of an empty batch only some outputs are written")
    if node.op == "_FusedMatMul" and inputs[0].size == 0:
        raise LookupError("the bias is forgotten where there is nothing to multiply")
    if node.op.startswith("TopK") and inputs[0].size == 0:
        raise LookupError("the gradient of rows without elements cannot be computed")
    if node.op.startswith("SparseSegment") and inputs[1].size == 0:
        raise LookupError("nothing is written into the gradient of no segments")
    if node.op == "CTCLoss" and inputs[0].shape[2] - 1 in inputs[2][inputs[1][:, 1] == 0]:
        raise LookupError("memory before its table is written for a sequence without labels that count")
    if node.op in ("BlockLSTM", "BlockLSTMV2") and inputs[0] < inputs[1].shape[0]:
        raise LookupError("only cs and h are written behind seq_len_max")
    if node.op.startswith("Igamma") and (inputs[0] == 2e4).any():
        raise LookupError("logarithms of gamma functions so large have lost digits, and IgammaGradA adds up 500 terms only")
    if node.op == "Erfinv" and (inputs[0] == 0.999).any():
        raise LookupError("it rounds (1 + x) / 2, which has few digits, or none, where x is close to 1")
    if node.op == "Betainc" and (inputs[0] == 2e4).any():
        raise LookupError("of parameters so large it has lost up to eight of its digits")
    if node.op == "Betainc" and (np.isinf(inputs[0]) & ~np.isinf(inputs[1])).any():
        raise LookupError("NaN where one parameter is infinite, though the function has a limit")
    if node.op.startswith(("RFFT", "IRFFT")) and inputs[0].size == 0:
        raise LookupError("nothing is written for an input without elements")


def is_written(node, output):
    """FusedBatchNorm writes no moments for a gradient unless it is training; decompositions no vectors unless asked."""
    if node.op in ("Svd", "SelfAdjointEigV2", "Eig"):
        return output == "y0" or node.attr["compute_uv" if node.op == "Svd" else "compute_v"].b
    return not (node.op.startswith("FusedBatchNorm") and "Grad" not in node.op and output in ("y3", "y4") and
                not node.attr["is_training"].b)


def in_order(node, output, answer):
    """TensorFlow gives the eigenvalues of real matrices in any order."""
    if (node.op, output) != ("Eig", "y0"):
        return answer
    return np.take_along_axis(answer, np.argsort(np.abs(answer), axis=-1, kind="stable"), axis=-1)


def compare(graph_def, values):
    tested = next(node for node in graph_def.node if node.name == "tested")
    check_that_tensorflow_computes(tested, values)
    names = [node.name for node in graph_def.node]
    feeds = {name + ":0": values[name + "_value"] for name in names if name[0] == "x"}
    fetches = [name for name in names if name[0] == "y"]
    tolerance = float(values["tolerance"])
    ignored = None
    for value in feeds.values():
        denormal = is_denormal(np.asarray(value))
        if denormal.any():
            ignored = denormal
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        tf.graph_util.import_graph_def(graph_def, name="")
        answers = session.run([name + ":0" for name in fetches], feeds)
        for name, answer in zip(fetches, answers):
            if not is_written(tested, name):
                continue
            ordered = in_order(tested, name, answer)
            check("output %s" % name[1:], values["found_" + name], ordered, tolerance, ignored)
            if ordered is not answer and not np.array_equal(ordered, answer, equal_nan=True):
                return  # gradients are those of other weights
        weights = {name: values["d%s_value" % name] for name in fetches if "d%s_value" % name in values}
        if not weights or "no_gradient" in values:
            return
        xs = [name for name in names if name[0] == "x" and is_inexact(values[name + "_value"].dtype)]
        found = tf1.gradients([graph.get_tensor_by_name(name + ":0") for name in weights],
                              [graph.get_tensor_by_name(x + ":0") for x in xs],
                              [tf.constant(weight) for weight in weights.values()])
        there = [(x, tf.convert_to_tensor(gradient)) for x, gradient in zip(xs, found) if gradient is not None]
        gradients = dict(zip([x for x, _ in there], session.run([gradient for _, gradient in there], feeds)))
        for x in xs:
            # No gradient and zeros are the same to an optimizer's formula.
            zeros = np.zeros_like(values[x + "_value"])
            check("gradient of input %s" % x[1:], values.get("found_g" + x[1:], zeros), gradients.get(x, zeros),
                  10 * tolerance, ignored)


def op_of(graph_def):
    return next((node.op for node in graph_def.node if node.name == "tested"), "?")


def test_every_call():
    path = os.path.join(DIRECTORY, "calls")
    subprocess.run([WRITER, path] + OPS, check=True)
    num_calls, complaints, without_answer = 0, [], collections.Counter()
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        graph_def, values = parts_of(tf1.GraphDef.FromString(record))
        num_calls += 1
        if "error" in values:
            complaints.append(values["error"].item().decode())
            continue
        inputs = " ".join("%s%s" % (v.dtype, list(v.shape)) for k, v in sorted(values.items()) if k[0] == "x")
        try:
            compare(graph_def, values)
        except Difference as difference:
            complaints.append("%s of %s: %s" % (op_of(graph_def), inputs, difference))
        except Exception as error:  # pylint: disable=broad-except
            if isinstance(error, NO_ANSWER) or any(text in str(error) for text in NO_ANSWER_TEXTS + FAULTS):
                without_answer[op_of(graph_def)] += 1
            else:
                complaints.append("%s of %s: TensorFlow: %s" % (op_of(graph_def), inputs, " ".join(str(error).split())[:300]))
    for complaint in complaints:
        print(complaint)
    print("%d calls, %d of them without an answer of TensorFlow: %s" % (
        num_calls, sum(without_answer.values()), dict(sorted(without_answer.items()))))
    if not OPS and num_calls < 1000:
        complaints.append("only %d calls" % num_calls)
    return complaints


if __name__ == "__main__":
    begin = time.time()
    found = test_every_call()
    print("[%s] tests/conformance:every_call (%d ms)" % ("  FAILED  " if found else "       OK ", 1000 * (time.time() - begin)))
    sys.exit(1 if found else 0)
