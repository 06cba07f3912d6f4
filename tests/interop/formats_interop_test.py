"""Files of ours are read by the real TensorFlow and TensorBoard, and theirs by us.

usage: formats_interop_test.py FORMAT_TOOL DIRECTORY
Each test prints one line in the form of googletest; the exit code is 1 when one fails.
"""
import glob
import json
import os
import subprocess
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import cases  # noqa: E402

TOOL, DIRECTORY = sys.argv[1:3]
tf1 = tf.compat.v1


def tool(*args):
    return subprocess.run([TOOL, *args], check=True, stdout=subprocess.PIPE, text=True).stdout


def directory(name):
    path = os.path.join(DIRECTORY, name)
    os.makedirs(path, exist_ok=True)
    return path


def equal(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    assert found.tobytes() == expected.tobytes(), (found, expected)


def test_tensorflow_reads_our_checkpoint():
    prefix = os.path.join(directory("ours"), "model-42")
    tool("write_checkpoint", prefix)
    assert tf.train.latest_checkpoint(os.path.dirname(prefix)) == prefix
    reader = tf.train.load_checkpoint(prefix)
    matrix = (np.arange(60000, dtype=np.float32) * 0.5).reshape(300, 200)
    bfloat16 = tf.bfloat16.as_numpy_dtype
    for name, value in {
        "dense/kernel": matrix,
        "partitioned": matrix,
        "float64": np.array([1e300, -0.0, np.pi]),
        "int32": np.array([[-1], [2147483647]], np.int32),
        "uint8": np.array([0, 255], np.uint8),
        "int16": np.array([-32768], np.int16),
        "int8": np.array([-128, 127], np.int8),
        "complex64": np.array([1 - 2j], np.complex64),
        "int64": np.array([-(2**63)], np.int64),
        "bool": np.array([True, False]),
        "bfloat16": np.array([1.5], bfloat16),
        "uint16": np.array([65535], np.uint16),
        "complex128": np.array(3 + 4j),
        "float16": np.array([-65504], np.float16),
        "uint32": np.array([2**32 - 1], np.uint32),
        "uint64": np.array([2**64 - 1], np.uint64),
        "global_step": np.array(42, np.int64),
        "empty": np.zeros((0, 3), np.float32),
        **{f"layer_{i}/bias": np.array(i, np.int32) for i in range(200)},
    }.items():
        equal(reader.get_tensor(name), value)
    strings = reader.get_tensor("string")
    assert strings.tolist() == [[b"", b"abc"], [b"\x00\xff", b"x" * 1000]], strings
    assert len(reader.get_variable_to_shape_map()) == 219, len(reader.get_variable_to_shape_map())
    # The restore op itself, with a slice across the stored ones.
    part = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=["partitioned"], shape_and_slices=["300 200 50,100:-"],
                                dtypes=[tf.float32])[0]
    equal(part.numpy(), matrix[50:150])


def test_we_read_tensorflows_checkpoint():
    tensors = {
        "a/float": np.random.RandomState(1).randn(37, 11).astype(np.float32),
        "int64": np.array([1, -2], np.int64),
        "half": np.array([0.5], np.float16),
        "bool": np.array([[True, False]]),
        "complex": np.array([1 + 2j], np.complex64),
        "empty": np.zeros((0,), np.float32),
        "scalar": np.array(7, np.int32),
        "string": np.array([b"", b"\x00\x01", b"y" * 300], object),
    }
    for sharded in (False, True):
        prefix = os.path.join(directory(f"theirs_{sharded}"), "model-7")
        names = sorted(tensors)
        if not sharded:
            tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                              tensors=[tf.constant(tensors[name]) for name in names])
        else:
            parts = [f"{prefix}_part{i}" for i in range(2)]
            for i, part in enumerate(parts):
                mine = names[i::2]
                tf.raw_ops.SaveV2(prefix=part, tensor_names=mine, shape_and_slices=[""] * len(mine),
                                  tensors=[tf.constant(tensors[name]) for name in mine])
            tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix, delete_old_dirs=False)
        lines = [json.loads(line) for line in tool("print_checkpoint", prefix).splitlines()]
        assert [line["name"] for line in lines] == names, lines
        for line in lines:
            expected = tensors[line["name"]]
            assert line["shape"] == list(expected.shape), line
            if "strings" in line:
                assert [bytes.fromhex(s) for s in line["strings"]] == expected.tolist(), line
            else:
                assert bytes.fromhex(line["bytes"]) == expected.tobytes(), line


def test_tensorboard_reads_our_events():
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as error:
        raise cases.Skip(f"no tensorboard: {error}") from error
    path = directory("events")
    tool("write_events", path)
    events = EventAccumulator(path).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(i, np.float32(1 / i)) for i in range(1, 6)]
    histogram = events.Histograms("weights")[0].histogram_value
    assert (histogram.num, histogram.min, histogram.max, histogram.sum) == (4, -1, 2, 1.5), histogram
    nodes = {node.name: node.device for node in tf1.GraphDef.FromString(
        events.Graph().SerializeToString()).node}
    assert nodes["y"] == "/device:CPU:0", nodes


def test_tensorflow_reads_our_events():
    path = directory("events_tf")
    tool("write_events", path)
    events = list(tf1.train.summary_iterator(glob.glob(path + "/events.out.tfevents.*")[0]))
    assert events[0].file_version == "brain.Event:2", events[0]
    assert len(events) == 9, len(events)


def test_records_both_ways():
    for kind, option in (("none", ""), ("gzip", "GZIP"), ("zlib", "ZLIB")):
        ours = os.path.join(directory("records"), f"ours_{kind}")
        tool("write_records", ours, kind)
        records = [record.numpy() for record in tf.data.TFRecordDataset(ours, compression_type=option)]
        assert records == [bytes([i]) * (i * i) for i in range(100)], kind
        theirs = os.path.join(directory("records"), f"theirs_{kind}")
        with tf.io.TFRecordWriter(theirs, option) as writer:
            for record in records:
                writer.write(record)
        assert [bytes.fromhex(line) for line in tool("print_records", theirs, kind).split("\n")[:-1]] == records, kind


def test_tensorflow_runs_our_graph():
    path = directory("graph")
    tool("write_graph", path)
    from google.protobuf import text_format
    binary = tf1.GraphDef.FromString(open(path + "/graph.pb", "rb").read())
    text = text_format.Parse(open(path + "/graph.pbtxt").read(), tf1.GraphDef())
    assert binary == text
    with tf.Graph().as_default():
        tf.import_graph_def(binary, name="")
        with tf1.Session() as session:
            session.run("w/Assign")
            equal(session.run("y:0", {"x:0": [10, 20]}), np.array([31, 81], np.float32))
    with tf.Graph().as_default():
        saver = tf1.train.import_meta_graph(path + "/graph.meta")
        assert [v.name for v in tf1.trainable_variables()] == ["w:0"], tf1.trainable_variables()
        assert saver is not None
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            equal(session.run("y:0", {"x:0": [1, 1]}), np.array([4, 5], np.float32))
            saver.save(session, os.path.join(path, "model"))
    line = json.loads(tool("print_checkpoint", os.path.join(path, "model")))
    assert line["name"] == "w" and bytes.fromhex(line["bytes"]) == np.array([3, 4], np.float32).tobytes(), line


def test_we_import_tensorflows_graph():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        w = tf1.get_variable("w", [4, 3], initializer=tf1.constant_initializer(1.0), use_resource=True)
        y = tf.nn.relu(tf.matmul(x, w), name="y")
        tf.gradients(tf.reduce_mean(y), [w])
    path = os.path.join(directory("graph"), "theirs.pb")
    with open(path, "wb") as file:
        file.write(graph.as_graph_def().SerializeToString())
    lines = tool("print_graph", path).splitlines()
    assert set(lines) == {f"{op.name} {op.type}" for op in graph.get_operations()}, lines


if __name__ == "__main__":
    sys.exit(cases.run(globals()))
