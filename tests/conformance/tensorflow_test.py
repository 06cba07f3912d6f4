"""Ops and gradients give what the real TensorFlow gives, also for ties, borders and what graphs do not know.

usage: tensorflow_test.py GRAPH_EVALUATOR DIRECTORY [NAME]
Every call is compared three times: with shapes and integers that the graph knows, with ranks only, with nothing known.
Each group prints one line in the form of googletest; the exit code is 1 when one fails. With NAME, only calls whose
name contains it.
"""
import collections
import itertools
import os
import subprocess
import sys
import time

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

EVALUATOR, DIRECTORY = sys.argv[1:3]
WANTED = sys.argv[3] if len(sys.argv) > 3 else ""
tf1 = tf.compat.v1
raw = tf.raw_ops
bfloat16 = tf.bfloat16.as_numpy_dtype
f32, f64, f16 = np.float32, np.float64, np.float16
KNOWLEDGE = ("shapes", "ranks", "nothing")
TOLERANCE = {np.dtype(f32): 2e-6, np.dtype(f64): 1e-13, np.dtype(f16): 2e-3, np.dtype(bfloat16): 1.6e-2,
             np.dtype(np.complex64): 2e-6, np.dtype(np.complex128): 1e-13}

Call = collections.namedtuple("Call", "name function inputs differentiate tolerance tensorflow_knows")
GROUPS = collections.OrderedDict()


def group(function):
    calls = []

    def call(name, op, *inputs, differentiate=True, tolerance=None, tensorflow_knows="nothing"):
        calls.append(Call(name, op, [np.asarray(value) for value in inputs], differentiate, tolerance, tensorflow_knows))

    function(call)
    GROUPS[function.__name__] = calls


def numbers(shape, low=-2.0, high=2.0, dtype=f32, seed=1):
    return np.random.RandomState(seed).uniform(low, high, shape).astype(dtype)


def small_integers(shape, low=-2, high=3, dtype=f32, seed=1):
    """Many ties."""
    return np.random.RandomState(seed).randint(low, high, shape).astype(dtype)


def ints(*values):
    return np.array(values, np.int32)


def is_floating(dtype):
    return np.dtype(dtype) in TOLERANCE


def known_shape(value, knows):
    return {"shapes": value.shape, "ranks": [None] * value.ndim, "nothing": None}[knows]


def build(call, knows):
    """The graph of a call as Weir gets it: its placeholders xs, their fed values, and its results ys."""
    xs, feeds = [], {}
    for i, value in enumerate(call.inputs):
        tf.constant(value, name="x%d_value" % i)
        placeholder = tf1.placeholder(value.dtype, known_shape(value, knows), name="x%d" % i)
        # Integers steer the op: what a graph knows of them it knows as constants.
        is_constant = knows != "nothing" and value.dtype.kind == "i"
        xs.append(tf.constant(value, name="constant%d" % i) if is_constant else placeholder)
        if not is_constant:
            feeds[placeholder] = value
    results = call.function(*xs)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    return xs, feeds, [tf.identity(result, name="y%d" % i) for i, result in enumerate(results)]


def weights(call, ys, values):
    """What flows back into each y: not 1, and not the same everywhere; None where nothing does."""
    return [np.asarray(np.random.RandomState(7).uniform(0.5, 1.5, value.shape)).astype(value.dtype)
            if call.differentiate and y.dtype.is_floating else None for y, value in zip(ys, values)]


def ask_tensorflow(call, knows):
    """The values of the ys, and the gradients of the xs or None."""
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        xs, feeds, ys = build(call, knows)
        values = session.run(ys, feeds)
        dys = weights(call, ys, values)
        differentiated = [(y, tf.constant(dy)) for y, dy in zip(ys, dys) if dy is not None]
        if not differentiated:
            return values, [None] * len(xs)
        found = tf1.gradients([y for y, _ in differentiated], xs, [dy for _, dy in differentiated])
        there = [tf.convert_to_tensor(g) for g, x in zip(found, xs) if g is not None and x.dtype.is_floating]
        results = iter(session.run(there, feeds))
        return values, [next(results) if g is not None and x.dtype.is_floating else None for g, x in zip(found, xs)]


def graph_for_weir(call, knows, values):
    with tf.Graph().as_default() as graph:
        _, _, ys = build(call, knows)
        for i, weight in enumerate(weights(call, ys, values)):
            if weight is not None:
                tf.constant(weight, name="dy%d_value" % i)
                tf1.placeholder(weight.dtype, known_shape(weight, knows), name="dy%d" % i)
        return graph.as_graph_def()


def read_results(record):
    nodes = tf1.GraphDef.FromString(record).node
    return {node.name: tf.make_ndarray(node.attr["value"].tensor) for node in nodes}


def difference(found, wanted, tolerance):
    """What differs, in words; None when nothing does."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return "is %s%s, TensorFlow gives %s%s" % (found.dtype, found.shape, wanted.dtype, wanted.shape)
    if wanted.dtype == object:
        return None if (found == wanted).all() else "is %s, TensorFlow gives %s" % (found, wanted)
    tolerance = TOLERANCE.get(wanted.dtype, 0) if tolerance is None else tolerance
    wide = np.complex128 if wanted.dtype.kind == "c" else f64 if is_floating(wanted.dtype) else wanted.dtype
    a, b = found.astype(wide), wanted.astype(wide)
    close = np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True) if is_floating(wanted.dtype) else a == b
    if np.all(close):
        return None
    at = tuple(np.argwhere(~np.atleast_1d(close))[0])
    return "at %s is %r, TensorFlow gives %r\nfound  %s\nwanted %s" % (
        list(map(int, at)), np.atleast_1d(a)[at], np.atleast_1d(b)[at], str(a).replace("\n", " ")[:400],
        str(b).replace("\n", " ")[:400])


def compare(call, values, gradients, results):
    if "error" in results:
        yield results["error"].item().decode()
        return
    for i, value in enumerate(values):
        different = difference(results["y%d" % i], value, call.tolerance)
        if different:
            yield "output %d %s" % (i, different)
    for i, gradient in enumerate(gradients):
        found = results.get("g%d" % i)
        if (gradient is None) != (found is None):
            # No gradient and zeros are the same to an optimizer's formula.
            if not np.any(found if gradient is None else gradient):
                continue
            yield "gradient of input %d is %s, TensorFlow gives %s" % (i, found, gradient)
        elif gradient is not None:
            different = difference(found, gradient, call.tolerance)
            if different:
                yield "gradient of input %d %s" % (i, different)


def run(name, calls):
    calls = [call for call in calls if WANTED in call.name]
    if not calls:
        return 0
    begin = time.time()
    graphs, results = (os.path.join(DIRECTORY, name + end) for end in (".graphs", ".results"))
    expected = []
    failures = []
    with tf.io.TFRecordWriter(graphs) as writer:
        for call in calls:
            try:
                values, gradients = ask_tensorflow(call, call.tensorflow_knows)
            except Exception as error:  # a call that TensorFlow refuses tests nothing
                failures.append("%s: TensorFlow: %s" % (call.name, str(error)[:300]))
                continue
            for knows in KNOWLEDGE:
                writer.write(graph_for_weir(call, knows, values).SerializeToString())
                expected.append((call, knows, values, gradients))
    subprocess.run([EVALUATOR, graphs, results], check=True)
    records = [record.numpy() for record in tf.data.TFRecordDataset(results)]
    assert len(records) == len(expected), (len(records), len(expected))
    for (call, knows, values, gradients), record in zip(expected, records):
        failures += ["%s (the graph knows %s): %s" % (call.name, knows, complaint)
                     for complaint in compare(call, values, gradients, read_results(record))]
    for failure in failures:
        print(failure)
    print("[%s] tests/conformance:%s (%d ms)" % ("  FAILED  " if failures else "       OK ", name,
                                                 1000 * (time.time() - begin)))
    return len(failures)


def simple(op_name, *names, **attrs):
    """A call of a raw op with its tensors in this order."""
    return lambda *tensors: getattr(raw, op_name)(**dict(zip(names, tensors)), **attrs)


@group
def test_functions_of_one_number(call):
    # No denormal numbers: TensorFlow takes them for 0.
    special = np.array([0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 1e-30, -1e-30, 30, -30, 1e30, -1e30, np.inf, -np.inf, np.nan,
                        88, -88, 3.5, -3.5], f32)
    for name in ("Abs", "Neg", "Sign", "Square", "Relu", "Floor", "Exp", "Tanh", "Sigmoid", "Reciprocal", "Sqrt",
                 "Rsqrt", "Log", "Log1p", "IsFinite", "IsNan"):
        tensor = "features" if name == "Relu" else "x"
        op = simple(name, tensor)
        call(name + "_special", op, special, tolerance=1e-5)
        call(name + "_special_double", op, special.astype(f64), tolerance=1e-12)
        for dtype in (f32, f64, f16, bfloat16):
            low = 0.1 if name in ("Sqrt", "Rsqrt", "Log", "Reciprocal") else -0.9 if name == "Log1p" else -3
            call("%s_%s" % (name, np.dtype(dtype)), op, numbers((3, 7), low, 3, dtype), tolerance=(
                1e-5 if dtype == f32 else 1e-2 if dtype == f16 else 4e-2 if dtype == bfloat16 else None))
    for name in ("TanhGrad", "SigmoidGrad"):
        call(name, simple(name, "y", "dy"), numbers((3, 4), -1, 1), numbers((3, 4), seed=2))
    call("ReluGrad", simple("ReluGrad", "gradients", "features"), numbers((9,)), small_integers((9,)))
    for low, high in ((-128, 127), (-3, 3)):
        for dtype in (np.int8, np.int32, np.int64):
            for name in ("Abs", "Neg", "Sign", "Square"):
                if name == "Square" and dtype == np.int8:
                    continue
                call("%s_%s" % (name, np.dtype(dtype)), simple(name, "x"), np.array([low, -1, 0, 1, high], dtype))


@group
def test_functions_of_two_numbers(call):
    shapes = [((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((), (2, 3)), ((2, 3), ()),
              ((1, 1), (1,)), ((4, 1, 3), (2, 1)), ((0, 3), (3,)), ((0, 3), (1, 1)), ((1,), (0,)), ((), ()),
              ((1, 3), (2, 3))]
    names = ("AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "FloorDiv", "FloorMod", "SquaredDifference",
             "Maximum", "Minimum", "Pow", "Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual")
    for name in names:
        op = simple(name, "x", "y")
        for a, b in shapes if name in ("AddV2", "Mul", "RealDiv", "Maximum", "Pow") else shapes[3:6]:
            x, y = numbers(a, 0.5, 3), numbers(b, 0.5, 3, seed=2)
            call("%s_%s_%s" % (name, a, b), op, x, y, tolerance=1e-5)
        for dtype in (f64, f16, bfloat16):
            call("%s_%s" % (name, np.dtype(dtype)), op, numbers((7,), 0.5, 3, dtype), numbers((7,), 0.5, 3, dtype, 2),
                 tolerance={f64: None, f16: 1e-2, bfloat16: 6e-2}[dtype])
        # Ties, zeros and signs.
        x, y = (np.array(part, f32) for part in zip(*itertools.product([-2, -1, 0, 1, 2, 0.5], repeat=2)))
        call(name + "_ties", op, x, y, tolerance=1e-5)
        call(name + "_ties_broadcast", op, x.reshape(6, 6), f32([0, 1, -1, 2, -2, 0.5]), tolerance=1e-5)
        x, y = (np.array(part, f32) for part in zip(*itertools.product([0, 1, -2.5, np.inf, -np.inf, np.nan], repeat=2)))
        call(name + "_special", op, x, y, tolerance=1e-5)
        for dtype in (np.int32, np.int64):
            if name in ("RealDiv", "DivNoNan"):
                continue
            low = 0 if name == "Pow" else 1
            call("%s_%s" % (name, np.dtype(dtype)), op, small_integers((40,), -9, 10, dtype),
                 small_integers((40,), low, 5, dtype, 2))
            if name != "Pow":
                call("%s_%s_negative" % (name, np.dtype(dtype)), op, small_integers((40,), -9, 10, dtype),
                     small_integers((40,), -5, 0, dtype, 2))
    call("same_twice", lambda x: raw.Mul(x=x, y=x), numbers((3,)))
    for name in ("LogicalAnd", "LogicalOr"):
        call(name, simple(name, "x", "y"), np.array([[True], [False]]), np.array([True, False]))
    call("AddN", lambda x, y, z: raw.AddN(inputs=[x, y, z]), numbers((3,)), numbers((3,), seed=2), numbers((3,), seed=3))
    call("SelectV2", simple("SelectV2", "condition", "t", "e"), np.array([[True], [False]]), numbers((2, 3)),
         numbers((3,), seed=2))
    call("SelectV2_scalars", simple("SelectV2", "condition", "t", "e"), np.array([[True], [False]]), numbers(()),
         numbers((3,), seed=2))
    call("SelectV2_condition_stretches", simple("SelectV2", "condition", "t", "e"), np.array([[True, False], [False, True]]),
         numbers((2, 1)), numbers((1, 2), seed=2))
    for condition in (np.array([True, False]), np.array([[True, False, True], [False] * 3]), np.array(True)):
        call("Select_%dd" % condition.ndim, simple("Select", "condition", "x", "y"), condition, numbers((2, 3)),
             numbers((2, 3), seed=2))


@group
def test_functions_of_three_numbers(call):
    op = simple("Betainc", "a", "b", "x")
    for parameters, x in (((2, 3), (2, 3)), ((), (2, 3)), ((2, 3), ()), ((), ()), ((0, 3), (0, 3)), ((0, 3), ())):
        for dtype, tolerance in ((f32, 1e-5), (f64, 1e-11)):
            call("Betainc_%s_%s_%s" % (parameters, x, np.dtype(dtype)), op, numbers(parameters, 0.5, 5, dtype),
                 numbers(parameters, 0.5, 5, dtype, seed=2), numbers(x, 0.1, 0.9, dtype, seed=3), tolerance=tolerance)
    ends = np.array([(a, b, x) for a in (0.5, 1, 2) for b in (0.5, 1, 2) for x in (0, 1)], f64).transpose()
    call("Betainc_ends", op, *ends, tolerance=1e-11)


@group
def test_reductions(call):
    axes = [ints(0), ints(1), ints(-1), ints(0, 2), ints(0, 1, 2), ints(), np.int32(1), ints(1, 0)]
    for name in ("Sum", "Mean", "Prod", "Max", "Min"):
        for axis, keep in list(itertools.product(axes, (False,))) + [(axes[1], True), (axes[3], True)]:
            op = simple(name, "input", "axis", keep_dims=keep)
            call("%s_%s_%s" % (name, axis.tolist(), keep), op, numbers((2, 3, 4), 0.5, 1.5), axis, tolerance=1e-5)
            call("%s_%s_%s_ties" % (name, axis.tolist(), keep), op, small_integers((2, 3, 4)), axis, tolerance=1e-5)
        for dtype in (f64, f16, bfloat16):
            call("%s_%s" % (name, np.dtype(dtype)), simple(name, "input", "axis"), numbers((3, 4), 0.5, 1.5, dtype),
                 ints(1), tolerance={f64: None, f16: 1e-2, bfloat16: 6e-2}[dtype])
        for shape, axis in (((0, 3), ints(0)), ((0, 3), ints(1)), ((2, 0), ints(1)), ((0,), ints(0))):
            call("%s_empty_%s_%s" % (name, shape, axis.tolist()), simple(name, "input", "axis"), np.zeros(shape, f32), axis)
        call(name + "_scalar", simple(name, "input", "axis"), f32(3), ints())
        call(name + "_long_axes", simple(name, "input", "axis"), numbers((2, 3)), np.array([-2], np.int64), tolerance=1e-5,
             tensorflow_knows="shapes")
        if name != "Prod":
            call(name + "_large", simple(name, "input", "axis"), numbers((70000,), -1, 1), ints(0), tolerance=1e-3)
        for dtype in (np.int32, np.int64):
            call("%s_%s" % (name, np.dtype(dtype)), simple(name, "input", "axis"), small_integers((3, 4), -9, 9, dtype),
                 ints(0))
        with_nan = np.array([[1, np.nan, 3], [np.inf, 2, -np.inf]], f32)
        call(name + "_nan", simple(name, "input", "axis"), with_nan, ints(1))
    # A product with one zero, with two, and with none.
    zeros = f32([[0, 2, 3], [0, 0, 3], [1, 2, 3]])
    for axis in (ints(0), ints(1), ints(0, 1)):
        call("Prod_zeros_%s" % axis.tolist(), simple("Prod", "input", "axis"), zeros, axis)
    # The product of all overflows, or is nearly 0, and those of the others do not.
    for dtype, values in ((f16, (300, 300)), (f32, (1e30, 1e30)), (f32, (1e-25, 1e-25))):
        call("Prod_extreme_%s_%g" % (np.dtype(dtype), values[0]), simple("Prod", "input", "axis"),
             np.array(values, dtype), ints(0))
    for name in ("All", "Any"):
        call(name, simple(name, "input", "axis"), np.array([[True, False], [True, True]]), ints(1))
        call(name + "_empty", simple(name, "input", "axis"), np.zeros((2, 0), np.bool_), ints(1))
    for axis in (0, 1, -1):
        call("ArgMax_%d" % axis, simple("ArgMax", "input", "dimension"), small_integers((4, 5)), np.int32(axis))
    call("ArgMax_nan", simple("ArgMax", "input", "dimension"), f32([[np.nan, 1], [1, np.nan], [2, 1]]), np.int32(1))
    call("L2Loss", simple("L2Loss", "t"), numbers((3, 4)), tolerance=1e-5)
    for ta, tb in itertools.product((False, True), repeat=2):
        for dtype in (f32, f64):
            a, b = numbers((3, 2) if ta else (2, 3), dtype=dtype), numbers((4, 3) if tb else (3, 4), dtype=dtype, seed=2)
            call("MatMul_%s_%s_%s" % (ta, tb, np.dtype(dtype)),
                 simple("MatMul", "a", "b", transpose_a=ta, transpose_b=tb), a, b, tolerance=1e-5)
    call("MatMul_empty", simple("MatMul", "a", "b"), np.zeros((2, 0), f32), np.zeros((0, 3), f32))
    call("MatMul_large", simple("MatMul", "a", "b"), numbers((65, 130), dtype=f64), numbers((130, 70), dtype=f64, seed=2),
         tolerance=1e-11)


@group
def test_shapes_and_layouts(call):
    x = numbers((2, 3, 4))
    call("Reshape", simple("Reshape", "tensor", "shape"), x, ints(4, -1))
    call("ExpandDims", simple("ExpandDims", "input", "axis"), x, np.int32(-2))
    call("Squeeze", simple("Squeeze", "input"), numbers((1, 2, 1)))
    call("Squeeze_axis", simple("Squeeze", "input", axis=[-1]), numbers((1, 2, 1)))
    for perm in itertools.permutations(range(3)):
        call("Transpose_%d%d%d" % perm, simple("Transpose", "x", "perm"), x, ints(*perm))
    call("Fill", simple("Fill", "dims", "value"), ints(2, 3), f32(1.5))
    call("Fill_empty", simple("Fill", "dims", "value"), ints(2, 0), f32(1.5))
    for start, limit, delta in ((0, 5, 1), (5, 0, -2), (1, 1, 1), (0, 5, 3)):
        call("Range_%d_%d_%d" % (start, limit, delta), simple("Range", "start", "limit", "delta"), np.int32(start),
             np.int32(limit), np.int32(delta))
    call("Range_float", simple("Range", "start", "limit", "delta"), f32(0), f32(1), f32(0.1), differentiate=False)
    for name in ("Shape", "Size", "Rank", "ZerosLike", "OnesLike"):
        call(name, simple(name, "x" if name.endswith("Like") else "input"), x)
    call("InvertPermutation", simple("InvertPermutation", "x"), ints(2, 0, 1))
    for axis in (0, 1, -1):
        call("ConcatV2_%d" % axis, lambda a, b, axis: raw.ConcatV2(values=[a, b], axis=axis), x, numbers((2, 3, 4), seed=2),
             np.int32(axis))
        call("Pack_%d" % axis, lambda a, b, axis=axis: raw.Pack(values=[a, b], axis=axis), x, numbers((2, 3, 4), seed=2))
    call("ConcatV2_different", lambda a, b, c, axis: raw.ConcatV2(values=[a, b, c], axis=axis), numbers((2, 1)),
         numbers((2, 3)), numbers((2, 0)), np.int32(1))
    call("ConcatV2_scalars_of_rank_1", lambda a, b, axis: raw.ConcatV2(values=[a, b], axis=axis), numbers((1,)),
         numbers((2,)), np.int32(-1))
    call("Split", lambda axis, x: raw.Split(axis=axis, value=x, num_split=2), np.int32(-1), x)
    call("Split_one_used", lambda axis, x: raw.Split(axis=axis, value=x, num_split=2)[1], np.int32(0), x)
    call("Unpack", lambda x: raw.Unpack(value=x, num=3, axis=1), x)
    call("Unpack_one_used", lambda x: raw.Unpack(value=x, num=3, axis=1)[1], x)
    for index in (np.int32, np.int64):
        call("Slice_%s" % np.dtype(index), simple("Slice", "input", "begin", "size"), x, np.array([0, 1, 2], index),
             np.array([-1, 2, 1], index))
        call("Pad_%s" % np.dtype(index), simple("Pad", "input", "paddings"), x, np.array([[0, 1], [2, 0], [0, 0]], index))
        call("Tile_%s" % np.dtype(index), simple("Tile", "input", "multiples"), x, np.array([2, 1, 3], index))
        call("BroadcastTo_%s" % np.dtype(index), simple("BroadcastTo", "input", "shape"), numbers((3, 1)),
             np.array([2, 3, 4], index))
    call("Slice_empty", simple("Slice", "input", "begin", "size"), x, ints(2, 0, 0), ints(0, 3, 4))
    call("Tile_zero", simple("Tile", "input", "multiples"), x, ints(0, 1, 1))
    call("Tile_scalar", simple("Tile", "input", "multiples"), f32(2), ints())
    call("BroadcastTo_same", simple("BroadcastTo", "input", "shape"), numbers((2, 3)), ints(2, 3))
    call("BroadcastTo_scalar", simple("BroadcastTo", "input", "shape"), f32(2), ints(2, 3))
    call("Identity", simple("Identity", "input"), x)
    call("StopGradient", lambda x: raw.AddV2(x=raw.StopGradient(input=x), y=x), x)
    for to in (tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.bool, tf.complex64):
        call("Cast_%s" % to.name, simple("Cast", "x", DstT=to), f32([0, -0.5, 0.5, 1.5, 2.5, -3.7, 100]))
    call("Cast_rounds", simple("Cast", "x", DstT=tf.float16), f32([1.0004883, 65519, 65520, 1e-8, 5.9e-8, 3e-8, np.nan, -np.inf]))
    call("Cast_rounds_bfloat16", simple("Cast", "x", DstT=tf.bfloat16), f32([1.00390625, 1.01171875, 3.4e38, np.nan, -np.inf]))
    call("Cast_truncates", simple("Cast", "x", DstT=tf.bfloat16, Truncate=True), f32([1.0078124, -1.0078124]))
    call("Cast_wraps", simple("Cast", "x", DstT=tf.int8), np.array([127, 128, 300, -129], np.int32))


@group
def test_strided_slices(call):
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    x = numbers((4, 5, 6))
    random = np.random.RandomState(3)
    written = [  # begin, end, strides, masks
        ([0], [4], [1], {}), ([1], [-1], [2], {}), ([-1], [-5], [-1], {}), ([3], [0], [-2], {}),
        ([0], [0], [-1], {"begin_mask": 1, "end_mask": 1}), ([5], [9], [1], {}), ([2, 1], [0, 9], [-1, 3], {}),
        ([1], [2], [1], {"shrink_axis_mask": 1}), ([-2], [-1], [1], {"shrink_axis_mask": 1}),
        ([0, 2], [0, 3], [1, 1], {"ellipsis_mask": 1, "shrink_axis_mask": 2}),
        ([0, 0, 1], [0, 0, 3], [1, 1, 1], {"ellipsis_mask": 1, "new_axis_mask": 2}),
        ([0, 1, 0], [0, 2, 0], [1, 1, 1], {"new_axis_mask": 1, "shrink_axis_mask": 2, "end_mask": 4}),
        ([3, 0], [1, 5], [1, 1], {}), ([0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], {"ellipsis_mask": 2, "end_mask": 15}),
        ([1], [0], [1], {"new_axis_mask": 1, "shrink_axis_mask": 1}),
        ([2], [0], [1], {"shrink_axis_mask": 1, "begin_mask": 1}),
    ]
    for i, (begin, end, strides, attrs) in enumerate(written):
        call("written_%d" % i, simple("StridedSlice", "input", "begin", "end", "strides", **attrs), x,
             ints(*begin), ints(*end), ints(*strides))
    for i in range(40):
        count = random.randint(1, 4)
        attrs = {mask: int(random.randint(0, 1 << count)) for mask in masks[:2]}
        strides = random.choice([-3, -2, -1, 1, 1, 2, 3], count)
        call("random_%d" % i, simple("StridedSlice", "input", "begin", "end", "strides", **attrs), x,
             random.randint(-7, 8, count).astype(np.int64), random.randint(-7, 8, count).astype(np.int64),
             strides.astype(np.int64))


@group
def test_look_ups(call):
    for axis, indices in itertools.product((0, 1, -1), (np.int32(1), ints(2, 0, 2), np.int32([[0, 1], [2, 2]]))):
        call("GatherV2_%d_%dd" % (axis, indices.ndim), simple("GatherV2", "params", "indices", "axis"), numbers((3, 4, 5)),
             indices, np.int32(axis))
    call("GatherV2_none", simple("GatherV2", "params", "indices", "axis"), numbers((3, 4)), ints(), np.int32(0))
    call("GatherV2_long", simple("GatherV2", "params", "indices", "axis"), numbers((3, 4)), np.array([1, 1]), np.int64(1))
    call("GatherV2_batch", simple("GatherV2", "params", "indices", "axis", batch_dims=1), numbers((2, 4, 3)),
         np.int32([[0, 1], [3, 3]]), np.int32(1))
    call("GatherV2_batch_and_outer", simple("GatherV2", "params", "indices", "axis", batch_dims=1), numbers((2, 3, 4, 2)),
         np.int32([[0, 1, 1], [3, 3, 0]]), np.int32(2))
    call("GatherV2_batch_of_pairs", simple("GatherV2", "params", "indices", "axis", batch_dims=-1), numbers((2, 2, 4)),
         np.int32([[[0], [1]], [[3], [3]]]), np.int32(2), tensorflow_knows="shapes")
    call("UnsortedSegmentSum", simple("UnsortedSegmentSum", "data", "segment_ids", "num_segments"), numbers((4, 3)),
         ints(1, -1, 1, 0), np.int32(3))
    call("UnsortedSegmentSum_2d", simple("UnsortedSegmentSum", "data", "segment_ids", "num_segments"), numbers((2, 2, 3)),
         np.int32([[0, 4], [-7, 0]]), np.int32(5))
    for axis in (0, 1, -1):
        call("OneHot_%d" % axis, simple("OneHot", "indices", "depth", "on_value", "off_value", axis=axis), ints(1, -1, 9, 0),
             np.int32(3), f32(2), f32(-1), differentiate=False)
    call("Where", simple("Where", "condition"), small_integers((3, 4)))


@group
def test_activations_and_losses(call):
    for dtype in (f32, f64):
        for name in ("Softmax", "LogSoftmax"):
            call("%s_%s" % (name, np.dtype(dtype)), simple(name, "logits"), numbers((3, 5), -5, 5, dtype), tolerance=1e-5)
        call("%s_1d" % name, simple(name, "logits"), numbers((5,), -5, 5, dtype), tolerance=1e-5)
        call("%s_far_%s" % (name, np.dtype(dtype)), simple(name, "logits"), np.array([[1000, -1000, 0]], dtype), tolerance=1e-5)
    loss = simple("SoftmaxCrossEntropyWithLogits", "features", "labels")
    labels = numbers((3, 5), 0, 1)
    labels /= labels.sum(1, keepdims=True)

    def only_loss(*tensors):
        return loss(*tensors).loss

    call("CrossEntropy", only_loss, numbers((3, 5), -3, 3), labels, tolerance=1e-5)
    call("CrossEntropy_both", loss, numbers((3, 5), -3, 3), labels, tolerance=1e-5, differentiate=False)
    # TensorFlow's gradients of these have the loss's shape and not their input's.
    call("CrossEntropy_one_row_of_labels", only_loss, numbers((3, 5), -3, 3), labels[:1], tolerance=1e-5, differentiate=False)
    call("CrossEntropy_one_row_of_logits", only_loss, numbers((1, 5), -3, 3), labels, tolerance=1e-5, differentiate=False)
    call("CrossEntropy_column_of_labels", only_loss, numbers((3, 5), -3, 3), labels[:, :1], tolerance=1e-5, differentiate=False)
    call("CrossEntropy_column_of_logits", only_loss, numbers((3, 1), -3, 3), labels, tolerance=1e-5, differentiate=False)
    call("CrossEntropy_empty", only_loss, np.zeros((0, 5), f32), np.zeros((0, 5), f32))
    for dtype in (np.int32, np.int64):
        call("SparseCrossEntropy_%s" % np.dtype(dtype),
             lambda x, y: raw.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=y).loss, numbers((3, 5), -3, 3),
             np.array([4, 0, 2], dtype), tolerance=1e-5)
    for layout, shape in (("NHWC", (2, 3, 4, 5)), ("NHWC", (3, 5)), ("NCHW", (2, 5, 3, 4))):
        call("BiasAdd_%s_%dd" % (layout, len(shape)), simple("BiasAdd", "value", "bias", data_format=layout),
             numbers(shape), numbers((5,), seed=2), tolerance=1e-5)
        if layout == "NHWC":  # TensorFlow has no CPU gradient of a gradient for the other
            call("BiasAddGrad_%s_%dd" % (layout, len(shape)), simple("BiasAddGrad", "out_backprop", data_format=layout),
                 numbers(shape), tolerance=1e-5)
    for k in (1, 2, 9, 0, -1):
        call("InTopKV2_%d" % k, simple("InTopKV2", "predictions", "targets", "k"), small_integers((6, 4)),
             ints(0, 1, 2, 3, 4, -1), np.int32(k))
    call("InTopKV2_nan", simple("InTopKV2", "predictions", "targets", "k"),
         f32([[1, np.nan, 0], [np.nan, 1, 0], [np.inf, 1, 0], [1, 2, -np.inf]]), ints(0, 0, 1, 0), np.int32(2))


@group
def test_windows(call):
    for padding, strides, dilations in itertools.product(("SAME", "VALID"), ((1, 1), (2, 2), (1, 3), (3, 2)),
                                                         ((1, 1), (2, 2), (1, 2))):
        is_dilated = max(dilations) > 1  # TensorFlow's CPU kernels have no gradient then
        for filter_shape in ((3, 3), (1, 1), (2, 3)):
            attrs = dict(strides=[1, *strides, 1], padding=padding, dilations=[1, *dilations, 1])
            name = "%s_%s_%s_%s" % (padding, strides, dilations, filter_shape)
            call("Conv2D_" + name, simple("Conv2D", "input", "filter", **attrs), numbers((2, 7, 8, 3)),
                 numbers((*filter_shape, 3, 2), seed=2), tolerance=3e-5, differentiate=not is_dilated)
    attrs = dict(strides=[1, 2, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 2, 1, 0, 3, 0, 0])
    call("Conv2D_explicit", simple("Conv2D", "input", "filter", **attrs), numbers((2, 7, 8, 3)),
         numbers((3, 3, 3, 2), seed=2), tolerance=3e-5)
    attrs = dict(strides=[1, 2, 1, 1], padding="SAME")
    call("Conv2D_double", simple("Conv2D", "input", "filter", **attrs), numbers((2, 7, 8, 3), dtype=f64),
         numbers((3, 3, 3, 2), dtype=f64, seed=2), tolerance=1e-11)
    call("Conv2D_groups", simple("Conv2D", "input", "filter", **attrs), numbers((2, 7, 8, 4)), numbers((3, 3, 2, 6), seed=2),
         tolerance=3e-5, differentiate=False)
    call("Conv2DBackpropInput_gradient", lambda sizes, w, dy: raw.Conv2DBackpropInput(
        input_sizes=sizes, filter=w, out_backprop=dy, **attrs), ints(2, 7, 8, 3), numbers((3, 3, 3, 2)),
         numbers((2, 4, 8, 2), seed=2), tolerance=3e-5)
    call("Conv2DBackpropFilter_gradient", lambda x, sizes, dy: raw.Conv2DBackpropFilter(
        input=x, filter_sizes=sizes, out_backprop=dy, **attrs), numbers((2, 7, 8, 3)), ints(3, 3, 3, 2),
         numbers((2, 4, 8, 2), seed=2), tolerance=3e-5)
    for padding, strides, size in itertools.product(("SAME", "VALID"), ((1, 1), (2, 2), (3, 2), (4, 4)),
                                                    ((2, 2), (3, 3), (3, 2), (5, 1))):
        pool = dict(ksize=[1, *size, 1], strides=[1, *strides, 1], padding=padding)
        name = "%s_%s_%s" % (padding, strides, size)
        for dtype in (f32, f64):
            call("AvgPool_%s_%s" % (name, np.dtype(dtype)), simple("AvgPool", "value", **pool),
                 numbers((2, 7, 6, 3), dtype=dtype), tolerance=1e-5)
            call("MaxPool_%s_%s" % (name, np.dtype(dtype)), simple("MaxPool", "input", **pool),
                 numbers((2, 7, 6, 3), dtype=dtype), tolerance=1e-5)
        call("MaxPool_%s_ties" % name, simple("MaxPool", "input", **pool), small_integers((2, 7, 6, 3)), tolerance=1e-5)
    call("MaxPool_explicit", simple("MaxPool", "input", ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="EXPLICIT",
                                    explicit_paddings=[0, 0, 1, 2, 2, 0, 0, 0]), small_integers((2, 7, 6, 3)) - 5)
    call("AvgPoolGrad_gradient", lambda sizes, dy: raw.AvgPoolGrad(
        orig_input_shape=sizes, grad=dy, ksize=[1, 2, 3, 1], strides=[1, 2, 2, 1], padding="SAME"), ints(2, 7, 6, 3),
         numbers((2, 4, 3, 3)), tolerance=1e-5)


@group
def test_gradients_of_images(call):
    image = numbers((2, 5, 6, 3))
    for align, half in ((False, False), (True, False), (False, True)):
        for op, dtype in (("ResizeBilinear", f32), ("ResizeBilinear", f16), ("ResizeBilinear", f64), ("ResizeBicubic", f32),
                          ("ResizeNearestNeighbor", f32), ("ResizeNearestNeighbor", f64)):
            for size in (ints(8, 4), ints(3, 13)):
                call("%s_%s_%s_%s_%s" % (op, np.dtype(dtype), align, half, list(size)),
                     simple(op, "images", "size", align_corners=align, half_pixel_centers=half), image.astype(dtype), size,
                     tolerance=2e-3 if dtype == f16 else 1e-5)
    for kernel in ("lanczos3", "gaussian", "triangle", "keyscubic"):
        call("ScaleAndTranslate_" + kernel, simple("ScaleAndTranslate", "images", "size", "scale", "translation", kernel_type=kernel),
             image, ints(4, 9), f32([0.7, 1.6]), f32([0.3, -0.4]), tolerance=1e-5)
    boxes, which = f32([[0.05, 0.13, 0.71, 0.93], [0.9, -0.26, 0.2, 0.63]]), ints(1, 0)
    for method in ("bilinear", "nearest"):
        for dtype in (f32, f64, f16):
            call("CropAndResize_%s_%s" % (method, np.dtype(dtype)),
                 simple("CropAndResize", "image", "boxes", "box_ind", "crop_size", method=method), image.astype(dtype), boxes, which,
                 ints(3, 4), tolerance=4e-3 if dtype == f16 else 1e-4)
    turned = f32([[0.83, -0.41, 1.37, 0.52, 0.91, -1.13, 0.021, -0.013], [1, 0, -3.77, 0.1, 1, 2.63, 0, 0]])
    for interpolation, mode in itertools.product(("NEAREST", "BILINEAR"), ("CONSTANT", "REFLECT", "WRAP", "NEAREST")):
        way = dict(interpolation=interpolation, fill_mode=mode)
        names = ("images", "transforms", "output_shape")
        for dtype in (f32, f64, f16):
            call("ImageProjectiveTransformV2_%s_%s_%s" % (interpolation, mode, np.dtype(dtype)), simple("ImageProjectiveTransformV2", *names, **way),
                 image.astype(dtype), turned, ints(4, 7), tolerance=4e-3 if dtype == f16 else 1e-4, tensorflow_knows="ranks")
        call("ImageProjectiveTransformV3_%s_%s" % (interpolation, mode), simple("ImageProjectiveTransformV3", *names, "fill_value", **way),
             image, turned[:1], ints(6, 5), f32(0.7), tolerance=1e-4, tensorflow_knows="ranks")
    # Also gray, black, white and saturated colors.
    colors = np.concatenate([np.abs(image[0]) + 0.01, [[[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0], [0, 1, 1], [0.5, 0.5, 0.25]]]])
    for dtype in (f32, f64):
        call("RGBToHSV_%s" % np.dtype(dtype), simple("RGBToHSV", "images"), colors.astype(dtype), tolerance=1e-4)
    for padding in ("SAME", "VALID"):
        call("Dilation2D_" + padding, simple("Dilation2D", "input", "filter", strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding=padding),
             image, numbers((2, 3, 3), seed=2))


@group
def test_image_files(call):
    def encoded(value):
        return value.numpy()

    image = (np.arange(23 * 17 * 3).reshape(23, 17, 3) * 7 % 251).astype(np.uint8)
    smooth = np.add.outer(np.add.outer(np.arange(23) * 5, np.arange(17) * 4), np.arange(3) * 20).astype(np.uint8)
    wide = image.astype(np.uint16) * 257 + 3
    jpegs = {"rgb": encoded(raw.EncodeJpeg(image=smooth)), "gray": encoded(raw.EncodeJpeg(image=smooth[..., :1])),
             "progressive": encoded(raw.EncodeJpeg(image=smooth, progressive=True, chroma_downsampling=False, quality=60))}
    pngs = {"%s_%d" % (np.dtype(pixels.dtype), channels): encoded(raw.EncodePng(image=pixels[..., :channels]))
            for pixels in (np.concatenate([image, smooth], -1), np.concatenate([wide, wide], -1)) for channels in (1, 2, 3, 4)}
    for name, contents in jpegs.items():
        text = np.array(contents, object)
        for attrs in (dict(), dict(channels=1), dict(channels=3), dict(ratio=2), dict(ratio=8), dict(fancy_upscaling=False),
                      dict(dct_method="INTEGER_ACCURATE")):
            call("DecodeJpeg_%s_%s" % (name, attrs), simple("DecodeJpeg", "contents", **attrs), text, differentiate=False)
        for window in (ints(0, 0, 23, 17), ints(3, 5, 7, 9), ints(22, 16, 1, 1)):
            call("DecodeAndCropJpeg_%s_%s" % (name, list(window)), simple("DecodeAndCropJpeg", "contents", "crop_window"), text, window,
                 differentiate=False)
        call("ExtractJpegShape_" + name, simple("ExtractJpegShape", "contents"), text, differentiate=False)
        for dtype in (tf.uint8, tf.uint16, tf.float32):
            call("DecodeImage_%s_%s" % (name, dtype), simple("DecodeImage", "contents", dtype=dtype), text, differentiate=False)
    for name, contents in pngs.items():
        text = np.array(contents, object)
        for channels in (0, 1, 3, 4):
            for dtype in (tf.uint8, tf.uint16):
                call("DecodePng_%s_%d_%s" % (name, channels, dtype), simple("DecodePng", "contents", channels=channels, dtype=dtype), text,
                     differentiate=False)
        call("DecodeImage_" + name, simple("DecodeImage", "contents", dtype=tf.float32), text, differentiate=False)
        call("DecodeGif_" + name, simple("DecodeGif", "contents"), np.array(pngs["uint8_3"], object), differentiate=False)
    for channels in (1, 2, 3, 4):
        for pixels in (np.concatenate([image, smooth], -1), np.concatenate([wide, wide], -1)):
            call("EncodePng_%s_%d" % (np.dtype(pixels.dtype), channels), lambda image: raw.DecodePng(
                contents=raw.EncodePng(image=image, compression=4), dtype=tf.uint16), pixels[..., :channels], differentiate=False)
    for attrs in (dict(), dict(quality=30), dict(progressive=True), dict(optimize_size=True), dict(chroma_downsampling=False),
                  dict(density_unit="cm", x_density=7), dict(xmp_metadata="words")):
        call("EncodeJpeg_%s" % attrs, lambda image, attrs=attrs: raw.DecodeRaw(bytes=raw.EncodeJpeg(image=image, **attrs), out_type=tf.uint8),
             smooth, differentiate=False)
    call("EncodeJpegVariableQuality", lambda images, quality: raw.DecodeRaw(bytes=raw.EncodeJpegVariableQuality(
        images=images, quality=quality), out_type=tf.uint8), smooth, np.int32(42), differentiate=False)
    # Two frames of 3 x 2 pixels; the second one is a pixel at (1, 1), and the transparent one beside it.
    gif = (b"GIF89a\x03\x00\x02\x00\x91\x00\x00\x00\x00\x00\xff\x00\x00\x00\xff\x00\x00\x00\xff"
           b",\x00\x00\x00\x00\x03\x00\x02\x00\x00\x02\x04\x44\xa8\x11\x29\x00"
           b"!\xf9\x04\x01\x00\x00\x02\x00,\x01\x00\x01\x00\x02\x00\x01\x00\x00\x02\x02\x8c\x0a\x00;")
    for name, contents in (("whole", gif), ("first", gif[:42] + b";"), ("truncated", gif[:-1])):
        text = np.array(contents, object)
        for expand in (True, False):
            for dtype in (tf.uint8, tf.float32):
                call("DecodeImage_gif_%s_%s_%s" % (name, expand, dtype), simple(
                    "DecodeImage", "contents", expand_animations=expand, dtype=dtype), text, differentiate=False)
        call("DecodeGif_" + name, simple("DecodeGif", "contents"), text, differentiate=False)
    for bits, height in ((24, 2), (32, -2), (8, 3)):
        row = (bits // 8 * 3 + 3) // 4 * 4
        header = b"BM" + b"\0" * 8 + (54).to_bytes(4, "little") + (40).to_bytes(4, "little") + (3).to_bytes(4, "little") + height.to_bytes(
            4, "little", signed=True) + b"\1\0" + bits.to_bytes(2, "little") + b"\0" * 24
        text = np.array(header + bytes(range(row * abs(height))), object)
        for channels in (0, 3, 4):
            call("DecodeBmp_%d_%d_%d" % (bits, height, channels), simple("DecodeBmp", "contents", channels=channels), text,
                 differentiate=False)
            if height > 0:  # TensorFlow multiplies by the negative height here
                call("DecodeImage_bmp_%d_%d" % (bits, channels), simple("DecodeImage", "contents", channels=channels, dtype=tf.uint16), text,
                     differentiate=False)


def sampled(name, count=6, **attrs):
    return lambda classes: list(getattr(raw, name)(true_classes=classes, num_true=2, num_sampled=count, seed=3, seed2=7, **attrs))


@group
def test_gradients_of_recurrent_cells(call):
    times, batch, inputs, cells = 5, 2, 3, 4
    shapes = ((times, batch, inputs), (batch, cells), (batch, cells), (inputs + cells, 4 * cells), (cells,), (cells,), (cells,), (4 * cells,))
    operands = [numbers(shape, seed=i, dtype=f32) for i, shape in enumerate(shapes)]
    for steps in (5, 3):
        for peepholes in (False, True):
            for which in ((6,), (1, 6)):
                call("BlockLSTM_gradient_%d_%s_%s" % (steps, peepholes, which), lambda *xs, steps=steps, peepholes=peepholes, which=which: [
                    raw.BlockLSTM(seq_len_max=np.int64(steps), x=xs[0], cs_prev=xs[1], h_prev=xs[2], w=xs[3], wci=xs[4], wcf=xs[5], wco=xs[6],
                                  b=xs[7], forget_bias=0.5, cell_clip=-1.0, use_peephole=peepholes)[i] for i in which],
                     *operands, tolerance=2e-5)


@group
def test_narrow_beams(call):
    for dtype in (f32, f64):
        for width, paths in ((1, 1), (3, 2), (10, 4)):
            for merges in (False, True):
                call("CTCBeamSearchDecoder_%d_%s_%s" % (width, merges, np.dtype(dtype)),
                     lambda x, width=width, paths=paths, merges=merges: [
                         y for list_of in raw.CTCBeamSearchDecoder(
                             inputs=x, sequence_length=[12, 7, 5], beam_width=width, top_paths=paths, merge_repeated=merges)
                         for y in (list_of if isinstance(list_of, list) else [list_of])],
                     numbers((12, 3, 6), dtype=dtype), differentiate=False, tolerance=1e-5)


@group
def test_candidate_samplers(call):
    classes = np.array([[1, 4], [2, 0], [9, 9]], np.int64)
    path = os.path.join(DIRECTORY, "unigrams")
    with open(path, "wb") as file:
        file.write(b"a,0.5\r\nb,c,2\n\n3\nd,1e-1")
    for unique in (False, True):
        for name, size in (("Uniform", 10), ("Uniform", 16), ("LogUniform", 1000), ("LearnedUnigram", 10),
                           ("ThreadUnsafeUnigram", 11)):
            call("%sCandidateSampler_%d_%s" % (name, size, unique),
                 sampled(name + "CandidateSampler", range_max=size, unique=unique), classes, differentiate=False)
        weights = [0.1, 2.0, 0.7, 3.0, 0.0, 1.0, 0.2, 5.0, 0.4, 0.3]
        for name, attrs in (("plain", {}), ("distorted", {"distortion": 0.75}), ("reserved", {"num_reserved_ids": 2, "unigrams": weights[2:]}),
                            ("shard", {"num_shards": 3, "shard": 1, "unigrams": weights * 3})):
            call("FixedUnigramCandidateSampler_%s_%s" % (name, unique), sampled("FixedUnigramCandidateSampler", **dict(
                {"range_max": 10, "unigrams": weights, "unique": unique}, **attrs)), classes, differentiate=False)
        call("FixedUnigramCandidateSampler_file_%s" % unique, sampled(
            "FixedUnigramCandidateSampler", 3, vocab_file=path, range_max=4, unique=unique), classes % 4, differentiate=False)
        call("AllCandidateSampler_%s" % unique, sampled("AllCandidateSampler", 10, unique=unique), classes, differentiate=False)


def csv_of(lines, *defaults, **attrs):
    return lambda: list(raw.DecodeCSV(records=lines, record_defaults=[tf.constant(value) for value in defaults], **attrs))


@group
def test_lines_of_csv(call):
    one, real, word = np.array([7], np.int32), np.array([0.5], f32), ["d"]
    for name, op in (
            ("numbers", csv_of(["1,2.5,abc", ",,", "-3, 1e-3 ,x y"], one, real, word)),
            ("scalar", csv_of("1,2", one, one)),
            ("matrix", csv_of([["1,2"], ["3,4"]], one, one)),
            ("quotes", csv_of(['"a,b","c""d",e', '"a\nb",,""'], word, word, word)),
            ("no_quotes", csv_of(['"a",b"c'], word, word, use_quote_delim=False)),
            ("delimiter", csv_of(["1;2"], one, one, field_delim=";")),
            ("na", csv_of(["NA,NA,NA"], one, real, word, na_value="NA")),
            ("columns", csv_of(["1,2,3,4"], one, one, select_cols=[1, 3])),
            ("behind_columns", csv_of(['1,x"y', '2,"abc', '3,"a"b', "4,\n5\n", "6"], one, select_cols=[0])),
            ("last_column_missing", csv_of(["a,b,", "a,b,\nc"], word, word, select_cols=[1, 2])),
            ("ends_before_fields", csv_of(["\n1,2.5,abc", '\r\n3,\n,\r"\nx"', ",,"], one, real, word)),
            ("ends_without_quotes", csv_of(['\r"q",\nx'], word, word, use_quote_delim=False)),
            ("end_as_delimiter", csv_of(["a\nb", "a\n", "a\n\nb"], word, word, field_delim="\n")),
            ("long", csv_of(["9223372036854775807,-9223372036854775808"], np.array([0]), np.array([0]))),
            ("double", csv_of(["1e400,inf,0x10,+5"], *[np.array([0.5])] * 4)),
            ("required", csv_of(["5"], np.array([], np.int32))),
            ("nothing", csv_of(np.array([], np.str_), one))):
        call("DecodeCSV_" + name, op, differentiate=False)


@group
def test_sparse_tensors_on_their_way(call):
    indices, shape = np.array([[0, 1], [1, 0], [1, 2]], np.int64), np.array([3, 3], np.int64)

    def stacked(out_type, dtype):
        def function(at, values, dims):
            sparse = tf.SparseTensor(at, tf.cast(values, dtype) if dtype != tf.string else tf.as_string(values), dims)
            one = tf1.serialize_sparse(sparse, out_type=out_type)
            many = tf1.serialize_many_sparse(sparse, out_type=out_type)
            inputs = [one, many, tf.stack([one, one]), tf.stack([[one, one], [one, one]])]
            results = [list(raw.DeserializeSparse(serialized_sparse=value, dtype=dtype)) for value in inputs]
            return sum(results, []) + ([one, many] if out_type == tf.string else [])
        return function

    def taken(at, values, dims):
        attrs = dict(sparse_indices=at, sparse_values=values, sparse_shape=dims, shared_name="map")
        one, many = raw.AddSparseToTensorsMap(**attrs), raw.AddManySparseToTensorsMap(**attrs)
        results = [raw.TakeManySparseFromTensorsMap(sparse_handles=handles, dtype=values.dtype, shared_name="map")
                   for handles in (tf.reshape(one, [1]), many)]
        return sum(map(list, results), [])

    for out_type, dtype in itertools.product((tf.string, tf.variant), (tf.float32, tf.int64, tf.string, tf.bool, tf.complex64)):
        call("SerializeSparse_%s_%s" % (out_type.name, dtype.name), stacked(out_type, dtype), indices,
             np.array([1, 2, 3], np.int32), shape, differentiate=False)
    call("AddSparseToTensorsMap", taken, indices, numbers((3,)), shape, differentiate=False)


@group
def test_parts_of_complex_numbers(call):
    for dtype in (f32, f64):
        x, y = numbers((2, 3), dtype=dtype), numbers((3,), seed=2, dtype=dtype)
        for name, op in (("Real", tf.math.real), ("Imag", tf.math.imag), ("ComplexAbs", tf.abs), ("Angle", tf.math.angle),
                         ("Conj", lambda z: tf.math.real(tf.math.conj(z)) + tf.math.imag(tf.math.conj(z)))):
            call("%s_%s" % (name, np.dtype(dtype)), lambda a, b, op=op: op(tf.complex(a, b)), x, y,
                 tolerance=1e-5 if dtype == f32 else 1e-12)
    call("ComplexAbs_zero", lambda a, b: tf.abs(tf.complex(a, b)), f32([0, 0, 1]), f32([0, 1, 0]))


@group
def test_gradients_of_fourier_transforms(call):
    for name, op in (("FFT", raw.FFT), ("IFFT", raw.IFFT), ("FFT2D", raw.FFT2D), ("IFFT2D", raw.IFFT2D), ("FFT3D", raw.FFT3D),
                     ("IFFT3D", raw.IFFT3D)):
        for dtype in (f32, f64):
            def parts(a, b, op=op):
                z = op(input=tf.complex(a, b))
                return tf.math.real(z) * 2 + tf.math.imag(z)
            call("%s_%s" % (name, np.dtype(dtype)), parts, numbers((2, 3, 4, 5), dtype=dtype),
                 numbers((2, 3, 4, 5), seed=2, dtype=dtype), tolerance=2e-5 if dtype == f32 else 1e-12)


@group
def test_singular_and_eigenvectors(call):
    """Vectors are known up to a factor of size 1: what they make together, and the sizes of their elements."""
    def svd(x, full=False):
        s, u, v = raw.Svd(input=x, full_matrices=full)
        count = tf.shape(s)[-1]
        whole = tf.matmul(u[..., :count] * tf.cast(s[..., tf.newaxis, :], u.dtype), v[..., :count], adjoint_b=True)
        return [s, tf.abs(u[..., :count]), tf.abs(v[..., :count]), tf.abs(tf.matmul(u, u, adjoint_a=True)),
                tf.abs(tf.matmul(v, v, adjoint_a=True)), whole]

    def eig(x):
        e, v = raw.SelfAdjointEigV2(input=x)
        return [e, tf.abs(v), tf.abs(tf.matmul(v, v, adjoint_a=True)),
                tf.matmul(v * tf.cast(e[..., tf.newaxis, :], v.dtype), v, adjoint_b=True)]

    def general_eig(x):
        e, v = raw.Eig(input=x, Tout=tf.complex64 if x.dtype in (tf.float32, tf.complex64) else tf.complex128)
        # What does not depend on the order, either.
        return [tf.reduce_sum(tf.math.real(e) ** 3 + tf.math.imag(e) ** 2, -1),
                tf.reduce_sum(tf.abs(v) ** 2 * tf.abs(e)[..., tf.newaxis, :] ** 2, -1),
                tf.matmul(v * e[..., tf.newaxis, :], tf.linalg.inv(v))]

    def parts(results):
        return [part for result in results for part in (
            (tf.math.real(result), tf.math.imag(result)) if result.dtype.is_complex else (result,))]

    for dtype in (f32, f64):
        tolerance = 2e-5 if dtype == f32 else 1e-11
        for shape in ((3, 3), (2, 5, 3), (3, 6), (20, 10)):
            for full in (False, True):
                call("Svd_%s_%s_%s" % (shape, full, np.dtype(dtype)), lambda x, full=full: svd(x, full),
                     numbers(shape, dtype=dtype), differentiate=False, tolerance=tolerance)
            call("Svd_complex_%s_%s" % (shape, np.dtype(dtype)), lambda a, b: parts(svd(tf.complex(a, b))),
                 numbers(shape, dtype=dtype), numbers(shape, seed=2, dtype=dtype), differentiate=False, tolerance=tolerance)
        for shape in ((3, 3), (2, 6, 6), (25, 25)):
            call("SelfAdjointEigV2_%s_%s" % (shape, np.dtype(dtype)), eig, numbers(shape, dtype=dtype),
                 differentiate=False, tolerance=tolerance)
            call("SelfAdjointEigV2_complex_%s_%s" % (shape, np.dtype(dtype)), lambda a, b: parts(eig(tf.complex(a, b))),
                 numbers(shape, dtype=dtype), numbers(shape, seed=2, dtype=dtype), differentiate=False, tolerance=tolerance)
            call("Eig_%s_%s" % (shape, np.dtype(dtype)), lambda x: parts(general_eig(x)), numbers(shape, dtype=dtype),
                 differentiate=False, tolerance=20 * tolerance)
            call("Eig_complex_%s_%s" % (shape, np.dtype(dtype)), lambda a, b: parts(general_eig(tf.complex(a, b))),
                 numbers(shape, dtype=dtype), numbers(shape, seed=2, dtype=dtype), differentiate=False, tolerance=20 * tolerance)
        for part in (0, 1):
            call("Eig_gradient_%d_%s" % (part, np.dtype(dtype)), lambda x, part=part: general_eig(x)[part],
                 numbers((2, 4, 4), dtype=dtype), tolerance=1e-3 if dtype == f32 else 1e-9)
            call("Eig_complex_gradient_%d_%s" % (part, np.dtype(dtype)),
                 lambda a, b, part=part: general_eig(tf.complex(a, b))[part], numbers((4, 4), dtype=dtype),
                 numbers((4, 4), seed=2, dtype=dtype), tolerance=1e-3 if dtype == f32 else 1e-9)
        call("SelfAdjointEigV2_gradient_%s" % np.dtype(dtype), lambda x: tf.square(raw.SelfAdjointEigV2(input=x)[1]),
             numbers((2, 4, 4), dtype=dtype), tolerance=1e-4 if dtype == f32 else 1e-10)
        call("SelfAdjointEigV2_both_%s" % np.dtype(dtype), lambda x: tf.square(raw.SelfAdjointEigV2(input=x)[1]) *
             raw.SelfAdjointEigV2(input=x)[0][..., tf.newaxis], numbers((2, 4, 4), dtype=dtype),
             tolerance=1e-4 if dtype == f32 else 1e-10)
    for rank, shape in ((1, (4, 3)), (2, (3, 5))):  # a null space
        x = numbers((shape[0], rank), dtype=f64) @ numbers((rank, shape[1]), seed=2, dtype=f64)
        call("Svd_rank_%d" % rank, lambda x: [raw.Svd(input=x)[0], svd(x, True)[5]], x, differentiate=False, tolerance=1e-11)
    for fast in (False, True):
        call("MatrixSolveLs_rank_%s" % fast, lambda a, b, fast=fast: raw.MatrixSolveLs(
            matrix=a, rhs=b, l2_regularizer=tf.constant(1e-2 if fast else 0.0, tf.float64), fast=fast),
             numbers((5, 1), dtype=f64) @ numbers((1, 3), seed=2, dtype=f64), numbers((5, 2), dtype=f64),
             differentiate=False, tolerance=1e-10)


@group
def test_gradients_of_quantization(call):
    x, bounds = numbers((2, 3, 4), -3, 3), (f32(-1.1), f32(2.3))
    for name, op in (("V2", raw.QuantizeAndDequantizeV2), ("V4", raw.QuantizeAndDequantizeV4)):
        for given in (False, True):
            call("QuantizeAndDequantize%s_%s" % (name, given), lambda x, low, high, op=op, given=given: op(
                input=x, input_min=low, input_max=high, range_given=given, num_bits=5), x, *bounds)
    call("QuantizeAndDequantizeV3", lambda x, low, high: raw.QuantizeAndDequantizeV3(
        input=x, input_min=low, input_max=high, num_bits=5), x, *bounds)
    call("FakeQuantWithMinMaxArgs", lambda x: raw.FakeQuantWithMinMaxArgs(inputs=x, min=-1.1, max=2.3), x)
    call("FakeQuantWithMinMaxVars", lambda x, low, high: raw.FakeQuantWithMinMaxVars(
        inputs=x, min=low, max=high, num_bits=5), x, *bounds)
    call("FakeQuantWithMinMaxVarsPerChannel", lambda x, low, high: raw.FakeQuantWithMinMaxVarsPerChannel(
        inputs=x, min=low, max=high, narrow_range=True), x, f32([-1, -2, 0, -0.5]), f32([1.3, 0, 2.2, 0.7]))


@group
def test_cumulative_logarithms(call):
    for exclusive, reverse in itertools.product((False, True), (False, True)):
        for dtype in (f32, f64):
            call("CumulativeLogsumexp_%s_%s_%s" % (exclusive, reverse, np.dtype(dtype)),
                 lambda x, e=exclusive, r=reverse: tf.math.cumulative_logsumexp(x, axis=1, exclusive=e, reverse=r),
                 numbers((2, 5, 3), dtype=dtype), tolerance=1e-5 if dtype == f32 else 1e-12)


@group
def test_summaries_of_sounds_and_tensors(call):
    for shape, most in (((2, 50), 3), ((2, 20, 2), 1), ((1, 5, 1), 1)):
        call("AudioSummaryV2_%d_%d" % (len(shape), most), lambda x, most=most: tf.reshape(raw.AudioSummaryV2(
            tag="sound", tensor=x, sample_rate=tf.constant(8000.0), max_outputs=most), [1]), 1.5 * numbers(shape), differentiate=False)
    for value in (numbers((2, 3)), np.array([[1, 2]], np.int64), np.array(["hello", "there"])):
        call("TensorSummaryV2_%s" % value.dtype.kind, lambda value=value: tf.reshape(raw.TensorSummaryV2(
            tag="tensor", tensor=value, serialized_summary_metadata=tf1.SummaryMetadata(display_name="name").SerializeToString()), [1]),
             differentiate=False)


def written(name, content):
    path = os.path.join(DIRECTORY, name)
    with open(path, "w") as file:
        file.write(content)
    return path


@group
def test_other_vocabularies(call):
    new, old = written("new_words", "knitting\nflask\neminem\nnew\n"), written("old_words", "eminem\nknitting\r\nflask")
    for first, count, size in ((0, 4, -1), (1, 2, 2), (4, 0, -1), (0, 1, 3)):
        call("GenerateVocabRemapping_%d_%d_%d" % (first, count, size), lambda first=first, count=count, size=size: list(
            raw.GenerateVocabRemapping(new_vocab_file=new, old_vocab_file=old, new_vocab_offset=first, num_new_vocab=count,
                                       old_vocab_size=size)), differentiate=False)
    model = os.path.join(DIRECTORY, "remapped")
    with tf.Graph().as_default(), tf1.Session() as session:
        session.run(raw.SaveV2(prefix=model, tensor_names=["w"], shape_and_slices=[""], tensors=[np.arange(20, dtype=f32).reshape(5, 4)]))
    for i, (rows, columns, values, num_columns, most) in enumerate((
            ([0, 1, 2, 3, 4], [], [], 4, -1), ([4, 0], [], [], 4, 2), ([2, -1, 0], [1, -1], [31, 32, 33, 34], 2, -1),
            ([-1, 3], [], [1, 2, 3, 4], 4, 1), ([2, 0], [3, 0, -1], [7, 8], 3, 3))):
        attrs = dict(ckpt_path=model, old_tensor_name="w", row_remapping=np.array(rows, np.int64), col_remapping=np.array(columns, np.int64),
                     initializing_values=np.array(values, f32), num_rows=len(rows), num_cols=num_columns, max_rows_in_memory=most)
        call("LoadAndRemapMatrix_%d" % i, lambda attrs=attrs: raw.LoadAndRemapMatrix(**attrs), differentiate=False)


TEXTS = [b"", b"plain", b"\x00\xff", b"\xe2\x82A", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80",
         b"a\xe2\x82", b"\xf4\x90\x80\x80", b"\xef\xbb\xbfab", b"\xc3", b"\x80\x80", b"\xf0\x80\x80\x80", b"\xef\xbf\xbe", b"\n\x1f ",
         b"\xd8\x00\x00a", b"\xdc\x00\x00a", b"\xd8\x00", b"\xd8\x00\xd8\x00\xdc\x00", b"\x00\xe9\x00a\xd8=\xde\x00", b"a\x00=\xd8\x00\xde",
         b"\x00\x00\xd8\x00\x00\x00\x00a\x00\x11\x00\x00", b"\x00\x00\x00a\x00"]
CODES = np.array([0, 65, 0x7f, 0x80, 0x7ff, 0x800, 0xd800, 0xdfff, 0xfdd0, 0xfffe, 0xffff, 0x10000, 0x1f600, 0x10ffff, 0x110000, -1], np.int32)


@group
def test_unicode(call):
    def decoded(encoding, **attrs):
        return lambda: list(raw.UnicodeDecodeWithOffsets(input=TEXTS, input_encoding=encoding, **attrs))

    def transcoded(encoding, output, **attrs):
        return lambda: raw.UnicodeTranscode(input=TEXTS, input_encoding=encoding, output_encoding=output, **attrs)

    for controls in (True, False):
        strict = dict(input=[b"a\x01\x7f"], input_encoding="UTF-8", errors="strict", replace_control_characters=controls)
        call("UnicodeDecode_strict_%s" % controls, lambda strict=strict: list(raw.UnicodeDecodeWithOffsets(**strict)), differentiate=False)
    call("UnicodeTranscode_strict", lambda: raw.UnicodeTranscode(output_encoding="UTF-8", **strict), differentiate=False)
    for encoding in ("UTF-8", "utf_16be", "UTF-16-LE", "UTF-32-BE", "UTF-32LE", "US-ASCII", "latin1"):
        for name, attrs in (("plain", {}), ("ignore", dict(errors="ignore", replace_control_characters=True)),
                            ("replace", dict(replacement_char=32, replace_control_characters=True))):
            call("UnicodeDecode_%s_%s" % (encoding, name), decoded(encoding, **attrs), differentiate=False)
            for output in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
                call("UnicodeTranscode_%s_%s_%s" % (encoding, output, name), transcoded(encoding, output, **attrs), differentiate=False)
    for output in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
        for errors in ("replace", "ignore"):
            call("UnicodeEncode_%s_%s" % (output, errors), lambda codes, output=output, errors=errors: raw.UnicodeEncode(
                input_values=codes, input_splits=np.array([0, 3, 3, len(CODES)], np.int64), output_encoding=output, errors=errors),
                 CODES, differentiate=False)


if __name__ == "__main__":
    num_failures = sum(run(name, calls) for name, calls in GROUPS.items())
    sys.exit(1 if num_failures else 0)
