"""Snapshots of datasets, and RecordInput, on `weir serve`, as in TensorFlow's own session.

usage: snapshots_interop_test.py WEIR EMPTY_DIRECTORY
"""
import os
import sys

from two_sessions import error_of

import tensorflow as tf
from tensorflow.python.ops import data_flow_ops

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
v1.disable_eager_execution()
Dataset = v1.data.Dataset


def folder(name):
    return os.path.join(sys.argv[2], name)


def elements(target, build, passes=1):
    """What each pass gives: an element, or the class of an error, until its end. And how often the input was asked."""
    outcomes = []
    with tf.Graph().as_default():
        counted = v1.get_variable("counted", initializer=tf.constant(0, tf.int64), use_resource=True)

        def count(*element):
            with tf.control_dependencies([counted.assign_add(1)]):
                return tf.nest.map_structure(tf.identity, element if len(element) > 1 else element[0])

        iterator = v1.data.make_initializable_iterator(build(count))
        element = iterator.get_next()
        with v1.Session(target, config=v1.ConfigProto(isolate_session_state=True)) as session:
            session.run(counted.initializer)
            for _ in range(passes):
                session.run(iterator.initializer)
                found = []
                while not found or found[-1] != "OutOfRangeError":
                    try:
                        found.append(tf.nest.map_structure(lambda v: v.tolist() if hasattr(v, "tolist") else v, session.run(element)))
                    except tf.errors.OpError as error:
                        found.append(type(error).__name__)
                    assert len(found) < 1000
                outcomes.append(found)
            return outcomes, session.run(counted)


def rows(count=lambda *e: e, size=7):
    return Dataset.range(size).map(count).map(lambda v: (v, tf.as_string(v), tf.fill([v % 3], 0.5)))


def in_turn(shards):
    return shards.flat_map(lambda shard: shard)


def test_a_snapshot_is_read_by_later_passes(server):
    for name, options in (("plain", {}), ("zipped", {"compression": "GZIP"}), ("none", {"compression": None}),
                          ("sharded", {"shard_func": lambda v, *_: v % 2, "reader_func": in_turn})):
        build = lambda path, options=options: lambda count: rows(count).snapshot(path, **options)
        expected, _ = elements("", build(folder("theirs-" + name)), passes=3)  # whose writer may end after its pass
        found, asked = elements(server.target(), build(folder("ours-" + name)), passes=3)
        for passed, expected_pass in zip(found[1:], expected[1:]):
            assert sorted(passed[:-1]) == sorted(expected_pass[:-1]) and len(passed) == 8, (name, passed, expected_pass)
        assert found[0] == expected[0], (name, found, expected)
        if name == "sharded":
            assert found[1] == found[2] and [v for v, *_ in found[1][:-1]] == [0, 2, 4, 6, 1, 3, 5], found
        assert asked == 7, (name, asked)
        assert len(os.listdir(folder("ours-" + name))) == 1


def test_a_snapshot_is_read_by_other_sessions_and_of_its_pipeline_only(server):
    path = folder("shared")
    build = lambda size: lambda count: Dataset.range(size).snapshot(path).map(count)
    values = lambda size: sorted(elements(server.target(), build(size))[0][0][:-1])
    assert values(5) == values(5) == list(range(5))
    assert len(os.listdir(path)) == 1
    assert values(6) == list(range(6))
    assert len(os.listdir(path)) == 2


def test_repeated_and_empty_snapshots(server):
    for name, asked, build in (("repeated", 7, lambda path: lambda count: rows(count).snapshot(path, reader_func=in_turn).repeat(3).map(lambda v, *_: v)),
                               ("empty", 0, lambda path: lambda count: Dataset.range(0).map(count).snapshot(path).repeat(2)),
                               ("taken", 6, lambda path: lambda count: rows(count).snapshot(path).take(3).map(lambda v, *_: v))):
        expected = elements("", build(folder("theirs-" + name)), passes=2)
        found = elements(server.target(), build(folder("ours-" + name)), passes=2)
        assert [sorted(map(str, each)) for each in found[0]] == [sorted(map(str, each)) for each in expected[0]], (name, found, expected)
        assert found[1] == asked, (name, found)


def test_a_pass_with_an_error_keeps_nothing(server):
    path = folder("failed")
    build = lambda count: Dataset.range(4).map(lambda v: tf.debugging.check_numerics(1.0 / tf.cast(v, tf.float32), "no")).map(count).snapshot(path)
    for _ in range(2):
        found = elements(server.target(), build)[0][0]
        assert found[0] == "InvalidArgumentError" and found[1:3] == [1.0, 0.5] and len(found) == 5, found
    (run,) = os.listdir(path)
    metadata = open(os.path.join(path, run, "snapshot.metadata"), "rb").read()
    assert not metadata.endswith(b"\xc0\x3e\x01"), metadata  # finalized


def test_snapshots_and_records_stay_in_the_allowed_folders(server):
    inside, outside = folder("inside"), folder("outside")
    os.mkdir(inside)
    os.mkdir(outside)
    write_records(os.path.join(outside, "records"), ["a"])
    with WeirServers(server.weir, flags=["--allow_dir=" + inside]) as confined:
        build = lambda path: lambda count: Dataset.range(3).snapshot(path)
        assert elements(confined.target(), build(inside + "/s"))[0][0][:-1] == [0, 1, 2]
        with tf.Graph().as_default(), v1.Session(confined.target()) as session:
            iterator = v1.data.make_initializable_iterator(Dataset.range(3).snapshot(outside + "/s"))
            element = iterator.get_next()
            session.run(iterator.initializer)
            assert isinstance(error_of(lambda: session.run(element)), tf.errors.PermissionDeniedError)
            record = data_flow_ops.RecordInput(outside + "/*", batch_size=1).get_yield_op()
            error_of(lambda: session.run(record))
    assert os.listdir(outside) == ["records"]


def write_records(path, records, compression=""):
    with tf.io.TFRecordWriter(path, compression) as writer:
        for record in records:
            writer.write(record)


def test_an_epoch_of_record_input_has_each_record_once(server):
    for compression in ("", "GZIP", "ZLIB"):
        files = folder("records" + compression)
        os.mkdir(files)
        for i in range(10):
            write_records(os.path.join(files, "part-%d" % i), ["%d-%d" % (i, j) for j in range(12)], compression)
        for buffer_size, parallelism, batch_size in ((1, 1, 1), (2000, 1, 3), (7, 3, 4), (5, 20, 2)):
            with tf.Graph().as_default(), v1.Session(server.target()) as session:
                records = data_flow_ops.RecordInput(
                    os.path.join(files, "part-*"), batch_size=batch_size, buffer_size=buffer_size, parallelism=parallelism,
                    shift_ratio=0.33, seed=10, compression_type=getattr(v1.io.TFRecordCompressionType, compression or "NONE")).get_yield_op()
                orders = []
                for _ in range(3):
                    epoch = [r.decode() for _ in range(120 // batch_size) for r in session.run(records)]
                    assert sorted(epoch) == sorted("%d-%d" % (i, j) for i in range(10) for j in range(12))
                    orders.append(epoch)
                assert orders[0] != orders[1] and orders[0] != sorted(orders[0])
                more = records[0] + "!"  # another plan goes on with the epoch
                assert session.run(more).decode()[:-1] in orders[0]


def test_errors_of_record_input(server):
    os.mkdir(folder("odd"))
    write_records(folder("odd/empty"), [])
    with open(folder("odd/damaged"), "wb") as file:
        file.write(b"this is no record, of course")
    for target in ("", server.target()):
        for name, expected in (("nowhere*", tf.errors.NotFoundError), ("odd/damaged", tf.errors.DataLossError)):
            with tf.Graph().as_default(), v1.Session(target) as session:
                record = data_flow_ops.RecordInput(folder(name), batch_size=1).get_yield_op()
                for _ in range(2):
                    assert isinstance(error_of(lambda: session.run(record)), expected), (target, name)
    with tf.Graph().as_default(), v1.Session(server.target()) as session:
        record = data_flow_ops.RecordInput(folder("odd/empty"), batch_size=1).get_yield_op()
        assert isinstance(error_of(lambda: session.run(record)), tf.errors.NotFoundError)


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
