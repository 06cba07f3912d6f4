"""Single ops drawn by a seed, with attributes and inputs that fit more or less: TensorFlow's own session judges `weir serve`.

usage: random_ops.py WEIR --seed=N [--cases=M] [--minutes=T] [--ops=NAME,NAME] [--print]

Runs each case in TensorFlow's own session and on `weir serve`, and prints what differs: values, or that one of them gives an error and the
other does not. Exits with 1 if anything differs, or if the server ended. --minutes draws until that time is over, --ops only those ops,
--print shows each case. What no case could judge is counted: ops that Weir lacks, cases that TensorFlow's Python refuses to build, and
cases that end TensorFlow's process, for which each case runs in a process that may end.

A case is one op without state. Shapes are mostly those that go together; sizes are small. What the server is given can hardly be told from
what a client might send, so it may fail, but it must fail where TensorFlow fails.
"""
import argparse
import collections
import json
import multiprocessing
import random
import resource
import signal
import sys
import time

import two_sessions  # noqa: F401  (before TensorFlow: it sets its environment)

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from weir_server import WeirServers

v1 = tf.compat.v1

# Values that may differ: the op only has to run, or to fail, on both.
FREE_VALUES = {
    **dict.fromkeys(["Svd", "SelfAdjointEig", "SelfAdjointEigV2", "Eig", "Qr", "BatchSvd"], "vectors of either sign"),
    **dict.fromkeys(["RFFT", "RFFT2D", "RFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D"], "TensorFlow leaves memory as it was for an fft_length of 0"),
    "Empty": "memory as it was",
    "StringFormat": "TensorFlow prints no complex numbers",
    "RandomGammaGrad": "at infinity",
    "BesselY1": "at zero",
    "Cholesky": "of matrices that are not positive definite",
}
# What TensorFlow computes although it contradicts itself; an error here. (So is much that gives no elements, which TensorFlow does not
# look at: it is known of all ops.)
TAKEN_BY_TENSORFLOW = {
    **dict.fromkeys(["AvgPoolGrad", "AvgPool3DGrad", "MaxPoolGrad"], "a gradient of another shape than the output"),
    **dict.fromkeys(["AvgPool", "AvgPool3D"], "a stride of channels"),
    **dict.fromkeys(["DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter"],
                    "windows and channels of size 0"),
    **dict.fromkeys(["SerializeSparse", "SerializeManySparse"], "indices of another rank than the shape"),
    "ReverseV2": "an axis that is no vector, of a scalar",
    "ScatterNdNonAliasingAdd": "a vector of indices as one column of them",
}
# What TensorFlow refuses; values here.
REFUSED_BY_TENSORFLOW = {
    "GatherNd": "rows without elements",
    **dict.fromkeys(["TensorScatterAdd", "TensorScatterSub", "TensorScatterMax", "TensorScatterMin", "TensorScatterUpdate"],
                    "updates for no rows"),
    "ShardedFilespec": "a vector of one name",
    **dict.fromkeys(["QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"], "a scalar without an axis"),
    "ArgMax": "a dimension of 16 bits, which it reads as 32",
    "ArgMin": "a dimension of 16 bits, which it reads as 32",
}
# Alone they are no graph.
NOT_DRAWN = {"Enter", "Exit", "NextIteration", "LoopCond", "Switch", "Merge"}

COMMON_TYPES = [tf.float32] * 6 + [tf.int32] * 3 + [tf.float64, tf.int64, tf.bool, tf.string, tf.uint8, tf.int8, tf.half, tf.bfloat16,
                                                     tf.complex64]
PLAIN_TYPES = {tf.float32, tf.float64, tf.int32, tf.int64, tf.bool, tf.string, tf.uint8, tf.int8, tf.int16, tf.uint16, tf.uint32, tf.uint64,
               tf.half, tf.bfloat16, tf.complex64, tf.complex128}
STRINGS = [b"", b"a", b"1", b"-2.5", b"ab cd", b"a,b;c", "\u00e4\u03c0\u4e2d".encode(), b"\xff\xfe", b"2020-01-01", b"x" * 20]
HOSTILE_SIZES = [-1, -5, 2**31 - 1, 2**31, 2**62]
AXES = {"axis", "dimension", "dim", "reduction_indices", "concat_dim", "split_dim", "reduction_axes", "dims"}
SIZES = {"shape", "size", "sizes", "dense_shape", "sparse_shape", "output_shape", "input_sizes", "filter_sizes", "multiples", "crop_size",
         "target_shape", "new_shape", "input_shape", "orig_input_shape", "out_shape", "block_shape", "s0", "s1", "lengths", "fft_length"}
COUNTS = {"num_segments", "k", "depth", "num", "num_samples", "num_rows", "num_columns", "num_lower", "num_upper", "num_buckets", "n", "lower",
          "upper", "n_fetch", "width", "max_output_size", "num_split"}
MEMORY = 6 << 30  # of the process that judges: what takes more is an error there
PATIENCE = 300  # seconds, for the judge to start, and for one case


def drawable_ops():
    """Names of the ops without state, references, resources and functions."""
    names = []
    for name in sorted(vars(tf.raw_ops)):
        op = op_def_registry.get(name)
        if op is None or op.is_stateful or name in NOT_DRAWN:
            continue
        arguments = list(op.input_arg) + list(op.output_arg)
        handles = {tf.resource.as_datatype_enum, tf.variant.as_datatype_enum}
        if any(a.is_ref or a.type in handles for a in arguments):
            continue
        if any(a.type in ("func", "list(func)", "tensor") for a in op.attr):
            continue
        names.append(name)
    return names


class Case:
    """One op, what it is given, and how. Attributes: `op`, `attrs`, `inputs` (name: array, or a list of them)."""

    def __init__(self, seed, names):
        self.random = random.Random(seed)
        self.numpy = np.random.RandomState(seed % 2**32)
        self.op = op_def_registry.get(self.random.choice(names))
        self.is_hostile = self.random.random() < 0.1
        self.is_fed = self.random.random() < 0.7
        has = {a.name for a in self.op.attr}
        self.is_image = bool({"padding", "data_format", "align_corners"} & has) or "mage" in self.op.name
        self.is_matrix = any(part in self.op.name for part in ("Matrix", "Cholesky", "Qr", "Lu", "Eig", "Svd", "Tridiagonal", "Banded"))
        self.shape = self.draw_shape()
        self.sparse = self.draw_sparse()
        self.attrs = {}
        for attr in self.op.attr:
            value = self.draw_attr(attr)
            if value is not None:
                self.attrs[attr.name] = value
        self.inputs = {argument.name: self.draw_argument(argument) for argument in self.op.input_arg}

    def dim(self):
        return self.random.choice([0, 1, 2, 2, 3, 3, 4, 5])

    def draw_shape(self):
        if self.is_image:
            return [self.random.randint(1, 2), self.random.randint(3, 6), self.random.randint(3, 6), self.random.choice([1, 2, 3, 4])]
        if self.is_matrix:
            n = self.random.randint(1, 4)
            return self.random.choice([[n, n], [2, n, n], [n, n + 1]])
        rank = self.random.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        return [self.dim() for _ in range(rank)]

    def draw_sparse(self):
        """Indices (sorted, without repetition) and the shape of a sparse tensor of two or three dimensions."""
        shape = [self.random.randint(1, 4) for _ in range(self.random.choice([2, 2, 3]))]
        places = sorted(self.random.sample(range(int(np.prod(shape))), self.random.randint(0, min(5, int(np.prod(shape))))))
        return np.stack(np.unravel_index(np.array(places, np.int64), shape), 1).astype(np.int64).reshape(-1, len(shape)), shape

    # Attributes.

    def draw_attr(self, attr):
        """None: the default."""
        if attr.type == "type":
            return self.draw_type(attr)
        if attr.type == "list(type)":
            return [self.draw_type(attr) for _ in range(self.random.randint(1, 3))]
        if attr.HasField("default_value") and self.random.random() < 0.6:
            return None
        if attr.type == "int":
            return self.draw_int_attr(attr)
        if attr.type == "list(int)":
            return self.draw_ints_attr(attr)
        if attr.type == "bool":
            return self.random.random() < 0.5
        if attr.type == "float":
            return self.random.choice([0.0, 0.5, 1.0, -1.0, 0.001, 3.0])
        if attr.type == "list(float)":
            return [self.random.uniform(-1, 2) for _ in range(self.random.randint(0, 3))]
        if attr.type == "string":
            allowed = [a for a in attr.allowed_values.list.s]
            if allowed:
                return self.random.choice(allowed)
            return b"VALID" if attr.name == "padding" else None if attr.HasField("default_value") else self.random.choice(STRINGS)
        if attr.type == "shape":
            return self.random.choice([self.shape, None if attr.HasField("default_value") else [], self.shape])
        if attr.type == "list(shape)":
            return [self.shape for _ in range(self.random.randint(1, 3))]
        if attr.type == "list(string)":
            return [self.random.choice(STRINGS) for _ in range(self.random.randint(0, 3))]
        return None

    def draw_type(self, attr):
        allowed = [tf.as_dtype(t) for t in attr.allowed_values.list.type]
        allowed = [t for t in allowed if t in PLAIN_TYPES] or COMMON_TYPES
        if attr.HasField("default_value") and self.random.random() < 0.5:
            return tf.as_dtype(attr.default_value.type) if attr.default_value.type else tf.float32
        if tf.float32 in allowed and self.random.random() < 0.4:
            return tf.float32
        return self.random.choice(allowed)

    def draw_int_attr(self, attr):
        if any(argument.number_attr == attr.name for argument in self.op.input_arg):
            return self.random.randint(max(1, attr.minimum if attr.has_minimum else 1), 3)
        if self.is_hostile and self.random.random() < 0.3:
            return self.random.choice(HOSTILE_SIZES[:3])
        return self.random.choice([0, 1, 1, 2, 2, 3, -1]) + (attr.minimum if attr.has_minimum and attr.minimum > 0 else 0)

    def draw_ints_attr(self, attr):
        if attr.name in ("strides", "ksize", "ksizes", "dilations", "rates"):
            if attr.name in ("dilations", "rates") and self.random.random() < 0.7:
                return [1] * len(self.shape)
            steps = self.random.choice([1, 1, 2, 2, 3])
            return [1, steps, self.random.choice([steps, 1, 2]), 1]
        return [self.random.choice([0, 1, 2, -1]) for _ in range(self.random.randint(0, 3))]

    # Inputs.

    def type_of(self, argument):
        if argument.type:
            return tf.as_dtype(argument.type)
        attr = next(a for a in self.op.attr if a.name == argument.type_attr)
        return self.attrs[attr.name]

    def draw_argument(self, argument):
        if argument.type_list_attr:
            return [self.draw_array(argument.name, t) for t in self.attrs[argument.type_list_attr]]
        if argument.number_attr:
            count = self.attrs.get(argument.number_attr, 1)
            return [self.draw_array(argument.name, self.type_of(argument)) for _ in range(count)]
        return self.draw_array(argument.name, self.type_of(argument))

    def draw_array(self, name, dtype):
        role = name.lower()
        if self.random.random() < 0.05:
            return self.values(dtype, [self.dim() for _ in range(self.random.randint(0, 4))])
        if dtype.is_integer:
            array = self.draw_integers(role)
            if array is not None:
                return np.asarray(array).astype(dtype.as_numpy_dtype)
        if "Sparse" in self.op.name and ("values" in role or role in ("grad", "backprop_val_grad")):
            return self.values(dtype, [len(self.sparse[0])])
        if role in ("filter", "out_backprop_filter") and self.is_image:
            return self.values(dtype, [self.random.randint(1, 3), self.random.randint(1, 3), self.shape[3], self.random.randint(1, 3)])
        if role == "boxes":
            return np.sort(self.numpy.uniform(0, 1, [self.dim(), 4])).astype(dtype.as_numpy_dtype)
        return self.values(dtype, self.related_shape())

    def related_shape(self):
        chance = self.random.random()
        if chance < 0.7:
            return self.shape
        if chance < 0.8:
            return [1 if self.random.random() < 0.5 else d for d in self.shape]
        if chance < 0.88:
            return self.shape[-1:] if self.shape else [self.dim()]
        if chance < 0.94:
            return []
        return self.draw_shape()

    def draw_integers(self, role):
        """What an integer input of that name is likely to hold; None: nothing in particular."""
        rank, shape = len(self.shape), self.shape
        if self.is_hostile and role in SIZES | COUNTS | AXES and self.random.random() < 0.5:
            return self.random.choice(HOSTILE_SIZES[:3])
        if "Sparse" in self.op.name and role.endswith("indices") and role != "reduction_indices":
            return self.sparse[0]
        if "Sparse" in self.op.name and (role.endswith("shape") or role == "dims"):
            return self.sparse[1]
        if role == "reduction_indices" and self.random.random() < 0.6:
            return self.random.sample(range(rank), self.random.randint(0, rank))
        if role in AXES:
            return self.random.randint(-rank, max(rank - 1, 0))
        if role == "perm":
            return self.random.sample(range(rank), rank)
        if role in ("begin", "start"):
            return [self.random.randint(0, max(d - 1, 0)) for d in shape] if role == "begin" else self.random.randint(-2, 2)
        if role == "strides":
            return [self.random.choice([1, 1, 2, -1]) for _ in shape]
        if role == "end":
            return [self.random.randint(0, d) for d in shape]
        if role in ("paddings", "crops"):
            return [[self.random.randint(0, 2), self.random.randint(0, 2)] for _ in shape]
        if role == "segment_ids":
            ids = [self.random.randint(0, 3) for _ in range(shape[0] if shape else 1)]
            return sorted(ids) if "Unsorted" not in self.op.name else ids
        if role in ("indices", "ids", "index", "box_ind", "box_indices", "labels", "targets"):
            most = max(min(shape[:1] or [1]) - 1, 0)
            return self.numpy.randint(0, most + 1, [self.dim()] if self.random.random() < 0.7 else [2, 2])
        if role == "seed":
            return [self.random.randint(0, 99), self.random.randint(0, 99)]
        if role in SIZES:
            if self.is_image and role == "size":
                return [self.random.randint(1, 6), self.random.randint(1, 6)]
            return [max(d + self.random.choice([0, 0, 0, 1, -1]), 0) for d in shape]
        if role in COUNTS or role.startswith("num_"):
            return self.random.randint(0, 5)
        return None

    def values(self, dtype, shape):
        if dtype == tf.string:
            return np.array([self.random.choice(STRINGS) for _ in range(int(np.prod(shape)))], object).reshape(shape)
        if dtype == tf.bool:
            return self.numpy.uniform(size=shape) < 0.5
        if dtype.is_integer:
            return self.numpy.randint(0 if dtype.is_unsigned else -3, 7, shape).astype(dtype.as_numpy_dtype)
        array = np.asarray(self.numpy.normal(0, 2, shape))
        if dtype.is_complex:
            array = array + 1j * self.numpy.normal(0, 2, shape)
        elif self.random.random() < 0.1 and array.size:
            array.flat[self.random.randrange(array.size)] = self.random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0])
        return np.asarray(array).astype(dtype.as_numpy_dtype)

    # Running it.

    def build(self):
        """The op's outputs, and the values of its placeholders. They say nothing of their shapes: kernels have to look."""
        feeds = {}

        def node(array):
            if not self.is_fed:
                return tf.constant(array)
            placeholder = v1.placeholder(tf.as_dtype(array.dtype) if array.dtype != object else tf.string)
            feeds[placeholder] = array
            return placeholder

        given = {name: [node(a) for a in value] if isinstance(value, list) else node(value) for name, value in self.inputs.items()}
        # Attributes that follow from the inputs may not be given.
        inferred = {a for argument in self.op.input_arg for a in (argument.type_attr, argument.number_attr, argument.type_list_attr)}
        attrs = {name: value for name, value in self.attrs.items() if name not in inferred}
        outputs = getattr(tf.raw_ops, self.op.name)(**given, **attrs)
        return [t for t in tf.nest.flatten(outputs) if isinstance(t, tf.Tensor)], feeds

    def run(self, target):
        """Arrays, the name of an error's class with its text, or None when it cannot be built."""
        with tf.Graph().as_default():
            try:
                outputs, feeds = self.build()
            except (TypeError, ValueError, NotImplementedError, MemoryError):
                return None
            config = v1.ConfigProto(operation_timeout_in_ms=30000)
            with v1.Session(target, config=config) as session:
                try:
                    return [np.array(value, object) if isinstance(value, bytes) else np.asarray(value)
                            for value in session.run(outputs, feeds)] if outputs else None
                except UnicodeDecodeError:
                    return "UnicodeDecodeError", "the error's text is none"  # in TensorFlow's client
                except tf.errors.OpError as error:
                    return type(error).__name__, words_of(error.message)

    def __str__(self):
        show = lambda v: [show(a) for a in v] if isinstance(v, list) else "%s%s %s" % (v.dtype, list(v.shape), np.array2string(
            v, threshold=24, separator=",").replace("\n", ""))
        return "%s attrs %s %s" % (self.op.name, self.attrs, {name: show(value) for name, value in self.inputs.items()})


def tolerance(dtype):
    if dtype in (np.dtype("float16"), tf.bfloat16.as_numpy_dtype):
        return 5e-2
    return 1e-6 if dtype in (np.float64, np.complex128) else 5e-4  # some compute with floats inside


def differing(expected, found):
    """What differs between two lists of arrays; None when nothing does."""
    if len(expected) != len(found):
        return "%d values for %d" % (len(found), len(expected))
    for i, (e, f) in enumerate(zip(expected, found)):
        if e.dtype != f.dtype or e.shape != f.shape:
            return "output %d: %s%s for %s%s" % (i, f.dtype, f.shape, e.dtype, e.shape)
        if e.dtype == object or e.dtype == bool or np.issubdtype(e.dtype, np.integer):
            is_same = np.array_equal(e, f)
        else:
            limit = tolerance(e.dtype)
            wide = np.complex128 if np.issubdtype(e.dtype, np.complexfloating) else np.float64
            is_same = np.allclose(f.astype(wide), e.astype(wide), rtol=limit, atol=limit, equal_nan=True)
        if not is_same:
            return "output %d: %s for %s" % (i, f.ravel()[:8], e.ravel()[:8])
    return None


def words_of(message):
    """Without where the node was made and what asked for it."""
    elsewhere = ("Graph execution", "Detected at", "File ", "Node:", "[[", "Original stack")
    lines = [line.strip() for line in message.split("\n")]
    return " ".join(line for line in lines if line and not line.startswith(elsewhere))[:300]


def lacks_kernel(result):
    return isinstance(result, tuple) and any(text in result[1] for text in (
        "Op type not registered", "No OpKernel", "no kernel there", "Signature mismatch", "only supports NHWC"))


def verdict(case, target):
    """What is counted, `differs` among them, and words."""
    expected = case.run("")
    if expected is None:
        return "not built", ""
    found = case.run(target)
    if found is None:
        return "not built", ""
    if isinstance(expected, tuple) and isinstance(found, tuple):
        return "both fail", ""
    if lacks_kernel(found):
        return "missing", found[1]
    if lacks_kernel(expected):
        return "more than TensorFlow", ""
    if isinstance(expected, tuple) or isinstance(found, tuple):
        if isinstance(expected, tuple):
            is_known = case.op.name in REFUSED_BY_TENSORFLOW
        else:
            is_known = case.op.name in TAKEN_BY_TENSORFLOW or all(value.size == 0 for value in expected)
        if is_known:
            return "known", ""
        return "differs", "TensorFlow: %s. Weir: %s" % tuple(
            "%s: %s" % r if isinstance(r, tuple) else "values" for r in (expected, found))
    if case.op.name in FREE_VALUES:
        return "same", ""
    what = differing(expected, found)
    return ("same", "") if what is None else ("differs", what)


def judge(pipe, target, names, seeds, prints):
    """Runs in a process of its own: tells of each seed before and after it runs."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    v1.disable_eager_execution()
    for seed in seeds:
        case = Case(seed, names)
        pipe.send((seed, case.op.name, None, ""))
        if prints:
            print("seed %d: %s" % (seed, case), flush=True)
        kind, words = verdict(case, target)
        pipe.send((seed, case.op.name, kind, words))
    pipe.close()


def judge_all(target, names, seeds, is_alive, prints=False, end=None):
    """Counts of kinds, and the findings: (seed, op, words). Ends with the first that ends the server."""
    counts, findings, missing = collections.Counter(), [], set()
    seeds = list(seeds)
    context = multiprocessing.get_context("spawn")
    while seeds and is_alive() and (end is None or time.time() < end):
        pipe, other = context.Pipe(duplex=False)
        process = context.Process(target=judge, args=(other, target, names, seeds, prints), daemon=True)
        process.start()
        other.close()
        last, num_left = None, len(seeds)
        try:
            while end is None or time.time() < end:
                if not pipe.poll(PATIENCE):
                    break
                seed, op, kind, words = pipe.recv()
                last = (seed, op) if kind is None else None
                if kind is None:
                    continue
                seeds = seeds[seeds.index(seed) + 1:]
                counts[kind] += 1
                if kind == "missing":
                    missing.add(op)
                if kind == "differs":
                    findings.append((seed, op, words))
                    print("seed %d: %s: %s" % findings[-1], flush=True)
                if not seeds:
                    break
        except EOFError:
            pass
        process.kill()
        process.join()
        if not is_alive():
            findings.append((last or (0, ""))[:2] + ("the server has ended",))
            print("seed %d: %s: %s" % findings[-1], flush=True)
        elif last is not None and last[0] in seeds:
            counts["TensorFlow ended"] += 1
            if prints:
                print("seed %d: %s ends TensorFlow (%s), or takes too long" % (last + (process.exitcode,)), flush=True)
            seeds = seeds[seeds.index(last[0]) + 1:]
        elif len(seeds) == num_left and (end is None or time.time() < end):
            raise RuntimeError("the process that judges does not start, its exit code is %s" % process.exitcode)
    return counts, findings, missing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--cases", type=int, default=1)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--ops")
    parser.add_argument("--print", action="store_true")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server ends too
    names = arguments.ops.split(",") if arguments.ops else drawable_ops()
    end = time.time() + 60 * arguments.minutes if arguments.minutes else None
    count = 10**6 if arguments.minutes else arguments.cases
    with WeirServers(arguments.weir) as server:
        counts, findings, missing = judge_all(server.target(), names, range(arguments.seed, arguments.seed + count),
                                              lambda: server.is_running("local"), arguments.print, end)
        if not server.is_running("local"):
            print(server.output()[-3000:])
    print(json.dumps({"ops": len(names), "cases": sum(counts.values()), **counts, "missing ops": sorted(missing)}))
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
