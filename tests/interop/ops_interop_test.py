"""Ops with state and files on `weir serve`: what they give and refuse, as in TensorFlow's own session.

usage: ops_interop_test.py WEIR EMPTY_DIRECTORY
"""
import os
import re
import sys
import threading
import time

from two_sessions import compare_each, error_of, numbers

import numpy as np
import tensorflow as tf

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
ops = tf.raw_ops
v1.disable_eager_execution()
folder = sys.argv[2]


# ---- Readers ----


def files():
    def path(name, content):
        full = os.path.join(folder, name)
        with open(full, "wb") as file:
            file.write(content)
        return full

    lines = [path("a.txt", b"head\r\none\n\ntwo\n"), path("empty.txt", b""), path("b.txt", b"head\nthree")]
    records = os.path.join(folder, "records")
    with tf.io.TFRecordWriter(records) as writer:
        for record in (b"first", b"", b"third" * 100):
            writer.write(record)
    packed = os.path.join(folder, "packed")
    with tf.io.TFRecordWriter(packed, "GZIP") as writer:
        writer.write(b"packed")
    return lines, [records], [packed], [path("fixed", b"HHaabbccFF"), path("short", b"HH")]


def reads(reader, names, count=7, up_to=None):
    """Records as they come, and the class of the error that ends them, each from a step of its own."""

    def build():
        queue = v1.FIFOQueue(10, [tf.string], [[]])
        fill = queue.enqueue_many([names])
        close = queue.close()
        source = reader()
        read = source.read(queue) if up_to is None else source.read_up_to(queue, up_to)
        produced = source.num_records_produced(), source.num_work_units_completed()
        return [fill, close] + [list(read)] * count + [list(produced)]

    return build


def reader_builds():
    lines, records, packed, fixed = files()
    compressed = tf.io.TFRecordOptions("GZIP")
    return [
        reads(v1.TextLineReader, lines),
        reads(lambda: v1.TextLineReader(skip_header_lines=1), lines),
        reads(lambda: v1.TextLineReader(skip_header_lines=9), lines, count=2),
        reads(v1.TextLineReader, lines, count=4, up_to=3),
        reads(v1.TFRecordReader, records, count=4),
        reads(lambda: v1.TFRecordReader(options=compressed), packed, count=2),
        reads(v1.IdentityReader, ["x", "y"], count=3),
        reads(v1.WholeFileReader, lines, count=4),
        reads(lambda: v1.FixedLengthRecordReader(2, 2, 2), fixed, count=4),
        reads(lambda: v1.FixedLengthRecordReader(2, 2, 2, 1), fixed, count=6),
        reads(v1.TextLineReader, [os.path.join(folder, "missing")], count=2),
    ]


# ---- Counters, summaries, printing ----


def counter_cases():
    def counted(variable):
        with tf.control_dependencies([variable.initializer]):
            return v1.count_up_to(variable, 2)

    return [counted(v1.Variable(start, name="c%d" % start, use_resource=kind)) for kind in (False, True) for start in (0, 1, 2)]


def pictures():
    signed = numbers(2, 4, 3, 3)
    broken = np.abs(signed)
    broken[0, 1, 2, 0], broken[0, 0, 0, 1] = np.nan, np.inf
    return [
        v1.summary.image("one", tf.constant(broken), max_outputs=1),
        v1.summary.image("some", tf.constant(signed), max_outputs=5),
        v1.summary.image("gray", tf.constant(signed[..., :1] * 0)),
        v1.summary.image("bytes", tf.constant((broken[:, :, :, [0, 1, 2, 0]] * 100).astype(np.uint8))),
    ]


def sounds_and_tensors():
    mono, stereo = numbers(2, 50) * 1.5, numbers(1, 20, 2, seed=3)
    return [
        v1.summary.audio("mono", tf.constant(mono), 8000.0),
        v1.summary.audio("stereo", tf.constant(stereo), 44100.0, max_outputs=1),
        v1.summary.audio("slow", tf.constant(mono), 0.2),
        v1.summary.audio("slower", tf.constant(mono), 1.7),
        v1.summary.text("text", tf.constant(["hello", "there"])),
        v1.summary.tensor_summary("tensor", tf.constant(mono)),
    ]


def printing_cases():
    x = tf.constant(numbers(3))
    return [v1.Print(x, [x, tf.constant("word")], "message: ", first_n=1)]


def printed_on_file(name):
    path = os.path.join(folder, name)

    def build():
        return [tf.print("some", tf.constant([[1, 2], [3, 4]]), output_stream="file://" + path)] * 2

    return path, build


def wait_for_line(server, line):
    deadline = time.monotonic() + 60
    while line not in server.output():
        assert time.monotonic() < deadline, (line, server.output())
        time.sleep(0.05)


# ---- Vocabularies ----


def remapping_cases():
    def vocabulary(name, words):
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write("\n".join(words) + "\n")
        return path

    new, old = vocabulary("new", ["knitting", "flask", "eminem", "new"]), vocabulary("old", ["eminem", "knitting", "flask"])
    twice = vocabulary("twice", ["a", "b", "a"])
    words = [ops.GenerateVocabRemapping(new_vocab_file=first, old_vocab_file=second, new_vocab_offset=offset, num_new_vocab=count,
                                        old_vocab_size=size)
             for first, second, offset, count, size in ((new, old, 0, 4, -1), (new, old, 1, 2, 2), (new, old, 4, 0, -1), (new, old, 1, 4, -1),
                                                        (new, old, 0, 4, 4), (new, twice, 0, 1, -1), (new, twice, 0, 1, 2))]
    model = os.path.join(folder, "remapped")
    with tf.Graph().as_default(), v1.Session() as session:
        session.run(ops.SaveV2(prefix=model, tensor_names=["matrix", "vector", "integers"], shape_and_slices=[""] * 3,
                               tensors=[np.arange(20.0, dtype=np.float32).reshape(5, 4), numbers(3), np.ones((2, 2), np.int32)]))

    def matrix(rows, columns, values, num_columns, name="matrix", **attrs):
        return ops.LoadAndRemapMatrix(ckpt_path=model, old_tensor_name=name, row_remapping=np.array(rows, np.int64),
                                      col_remapping=np.array(columns, np.int64), initializing_values=np.array(values, np.float32),
                                      num_rows=len(rows), num_cols=num_columns, **attrs)

    return words + [
        matrix([0, 1, 2, 3, 4], [], [], 4),
        matrix([4, 0], [], [], 4, max_rows_in_memory=2),
        matrix([2, -1, 0], [1, -1], [31, 32, 33, 34], 2),
        matrix([-1, 3], [], [1, 2, 3, 4], 4, max_rows_in_memory=1),
        matrix([2, 0], [3, 0, -1], [7, 8], 3),
        matrix([2, -1], [1, -1], [31], 2),
        matrix([2, -1], [], [1, 2, 3, 4, 5], 4),
        matrix([1, 1], [], [], 4),
        matrix([1], [0, 0], [], 2),
        matrix([0], [], [], 3),
        matrix([0], [], [], 3, name="vector"),
        matrix([0], [], [], 2, name="integers"),
        matrix([0], [], [], 2, name="missing"),
    ]


def test_remapping(server):
    compare_each(server, remapping_cases)


# ---- Staging areas and mutexes ----


def staging_cases():
    """Steps that follow one another on areas of one session."""
    types = [tf.float32, tf.int32]
    area = dict(dtypes=types, shared_name="area")
    put = [ops.Stage(values=[tf.constant([x, 1.0]), tf.constant(i)], shared_name="area") for i, x in enumerate((0.5, 1.5))]
    size = ops.StageSize(**area)
    steps = [size, put[0], put[1], size, ops.StagePeek(index=1, **area), ops.Unstage(**area), size, ops.StageClear(**area), size]
    for kind in ("Map", "OrderedMap"):
        keyed = dict(dtypes=types, shared_name=kind)
        call = lambda name, kind=kind, keyed=keyed, **more: getattr(ops, kind + name)(**keyed, **more)  # noqa: E731
        key = lambda value: np.array(value, np.int64)  # noqa: E731
        sizes = [call("Size"), call("IncompleteSize")]
        steps += [sizes, call("Stage", key=key(7), indices=[0, 1], values=[tf.constant([2.0]), tf.constant(3)]),
                  call("Stage", key=key(3), indices=[1], values=[tf.constant(5)]), sizes,
                  call("Stage", key=key(3), indices=[1], values=[tf.constant(5)]),
                  call("Stage", key=key(3), indices=[0], values=[tf.constant([4.0])]), sizes,
                  call("Peek", key=key(7), indices=[0, 1]), call("Unstage", key=key(3), indices=[0, 1]), sizes,
                  call("UnstageNoKey", indices=[0, 1]), sizes,
                  call("Stage", key=key(2), indices=[1], values=[tf.constant(5)]), call("Clear"), sizes]
    return steps


def test_staging_areas(server):
    compare_each(server, staging_cases)


def test_a_staging_area_makes_steps_wait(server):
    with tf.Graph().as_default():
        area = dict(dtypes=[tf.int32], shared_name="waited", capacity=1)
        value = v1.placeholder(tf.int32, [])
        put, get, peek = ops.Stage(values=[value], shared_name="waited", capacity=1), ops.Unstage(**area), ops.StagePeek(index=0, **area)
        with v1.Session(server.target()) as session:
            taken = []
            taker = threading.Thread(target=lambda: taken.extend(int(session.run(get)[0]) for _ in range(20)))
            taker.start()
            for i in range(20):
                session.run(put, {value: i})
            taker.join(60)
            assert taken == list(range(20)), taken
            for waiting in (get, peek):
                error = error_of(lambda: session.run(waiting, options=v1.RunOptions(timeout_in_ms=200)))
                assert isinstance(error, tf.errors.DeadlineExceededError), error


def test_a_mutex_lets_one_step_in(server):
    with tf.Graph().as_default():
        section = tf.CriticalSection(shared_name="section")
        count = v1.Variable(0, use_resource=True)

        def body():
            read = count.read_value()
            with tf.control_dependencies([read]):
                product = tf.linalg.matmul(tf.ones([200, 200]), tf.ones([200, 200]))
            with tf.control_dependencies([product]):
                return count.assign(read + 1, read_value=False)

        step = section.execute(body)
        with v1.Session(server.target()) as session:
            session.run(count.initializer)
            threads = [threading.Thread(target=lambda: [session.run(step) for _ in range(25)]) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            assert session.run(count) == 100, session.run(count)


def test_readers(server):
    for build in reader_builds():
        compare_each(server, build)


def test_counters(server):
    compare_each(server, counter_cases)


def test_summaries_of_sounds_and_tensors(server):
    compare_each(server, sounds_and_tensors)


def test_summaries_of_images(server):
    """Files may be compressed otherwise; the pixels are TensorFlow's."""
    found = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            summaries = pictures()
            with v1.Session(target) as session:
                values = [value for text in session.run(summaries) for value in v1.Summary.FromString(text).value]
        with tf.Graph().as_default(), v1.Session() as session:
            files = [value.image.encoded_image_string for value in values]
            pixels = session.run([tf.io.decode_png(file) for file in files])
        found.append([(v.tag, v.image.height, v.image.width, v.image.colorspace, p.tolist()) for v, p in zip(values, pixels)])
    assert found[0] == found[1], found


def test_printing(server):
    compare_each(server, printing_cases)
    wait_for_line(server, "weir: message: [%s][word]\n" % " ".join("%.9g" % x for x in numbers(3)))


def failed_assertions(target):
    """What an assertion says about each of many tensors."""
    tensors = [np.float32(1.5), numbers(4), np.arange(6.0).reshape(2, 3), np.arange(24).reshape(2, 3, 4), np.array([[True, False], [False, True]]),
               np.array([b"a\nb", b"q\"uote", "\u00e9".encode()], object), np.zeros([0, 3], np.float32), np.array([-1, 5], np.int8),
               np.array([0.1, 1 / 3, 1e-20, 1e16, np.inf]), np.array([0.1, np.nan, -0.0], np.float16), np.array(b"word", object),
               np.arange(4, dtype=np.uint64).reshape(4, 1)]
    texts = []
    with tf.Graph().as_default(), v1.Session(target) as session:
        for summarize in (-1, 1, 3, 5):
            for tensor in tensors:
                assertion = ops.Assert(condition=False, data=["why", tensor], summarize=summarize)
                texts.append(re.search("assertion failed: .*", error_of(lambda: session.run(assertion)).message).group())  # pylint: disable=cell-var-from-loop
    return texts


def test_failed_assertions(server):
    for expected, found in zip(failed_assertions(""), failed_assertions(server.target())):
        assert found == expected, (found, expected)


def test_printing_on_streams(server):
    texts = {"stdout": "to stdout", "stderr": "to\nstderr", "log(info)": "to a log\x1b[1m"}
    with tf.Graph().as_default():
        prints = [ops.PrintV2(input=text, output_stream=stream) for stream, text in texts.items()]
        with v1.Session(server.target()) as session:
            session.run(prints)
    for line in ("weir: to stdout\n", "weir: to\n", "weir: stderr\n", "weir: to a log\\x1b[1m\n"):
        wait_for_line(server, line)


def test_printing_on_files(server):
    path, build = printed_on_file("printed")
    compare_each(server, build)
    with open(path) as file:
        assert file.read() == "some [[1 2]\n [3 4]]\n" * 4, path


def casts_of_eight_bits():
    """Every number of eight bits in other dtypes, and others rounded to eight bits."""
    wide = np.concatenate([np.ldexp(numbers(200, seed=i + 20), i).astype(np.float32) for i in range(-20, 21, 4)] + [[0, -0.0, np.inf, -np.inf, np.nan]])
    fetches = []
    for dtype in (tf.dtypes.experimental.float8_e5m2, tf.dtypes.experimental.float8_e4m3fn):
        every = tf.constant(np.arange(256, dtype=np.uint8).view(dtype.as_numpy_dtype))
        fetches += [tf.cast(every, other) for other in (tf.float32, tf.float16, tf.float64, tf.int32, tf.bool)]
        fetches.append(tf.cast(tf.cast(every, tf.bfloat16), tf.float32))
        for source in (wide, wide.astype(np.float64), wide.astype(np.float16)):
            fetches.append(tf.cast(tf.cast(source, dtype), tf.float32))
        fetches.append(tf.cast(tf.constant(-1.5, dtype), tf.float32))
    return fetches


def test_casts_of_eight_bits(server):
    compare_each(server, casts_of_eight_bits)


def counts_in_sparse_tensors():
    """Counts of rows and of vectors, with weights, limits and what is refused."""
    fetches, words = [], np.random.RandomState(3).randint(0, 9, [4, 6])
    ragged = tf.RaggedTensor.from_row_lengths(words.reshape(-1), [5, 0, 12, 7])
    for options in ({}, {"minlength": 12}, {"maxlength": 5}, {"minlength": 9, "maxlength": 3}, {"binary_output": True}):
        for values in (tf.constant(words), tf.constant(words[0]), tf.sparse.from_dense(words), ragged):
            fetches.append(tf.sparse.bincount(values, **options))
    fetches.append(tf.sparse.bincount(words, weights=numbers(4, 6), axis=-1))
    for values in ([1, -1], [[1], [2]]):
        fetches.append(ops.DenseCountSparseOutput(values=v1.placeholder_with_default(values, None), weights=numbers(3), binary_output=False))
    for splits in ([1, 2], [0, 1], [0]):
        fetches.append(ops.RaggedCountSparseOutput(splits=splits, values=[3, 3], weights=[1.0, 2.0], binary_output=False))
    return fetches


def test_counts_in_sparse_tensors(server):
    compare_each(server, counts_in_sparse_tensors, tolerance=1e-6)


def segments_of_strings():
    rows = np.array([[b"a", b"b"], [b"c", b""], [b"e", b"f"]], object)
    join, any_shape = ops.UnsortedSegmentJoin, lambda value: v1.placeholder_with_default(value, None)
    fetches = [join(inputs=rows, segment_ids=ids, num_segments=4, separator=", ") for ids in ([1, 0, 1], [[3, 3], [0, 3], [0, 1]])]
    return fetches + [join(inputs=rows, segment_ids=any_shape(ids), num_segments=any_shape(count))
                      for ids, count in (([1, 0, 1], 1), ([-1, 0, 1], 2), ([0, 1], 2), (0, 2), ([[[0]]], 2), ([0, 0, 0], -1), ([0, 0, 0], [1]))]


def test_segments_of_strings(server):
    compare_each(server, segments_of_strings)


def test_indices_outside_of_a_sparse_tensor(server):
    """Where its shape stays, they do."""
    compare_each(server, lambda: [list(ops.SparseReshape(input_indices=np.array([[0, 5], [1, 0]], np.int64), input_shape=[2, 3],
                                                         new_shape=np.array(shape, np.int64))) for shape in ([2, 3], [-1, 3])])


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
