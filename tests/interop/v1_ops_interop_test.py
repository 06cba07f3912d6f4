"""Ops of TensorFlow 1's programs that few others use, on `weir serve` as in TensorFlow's own session: crosses of features, examples in JSON,
readers' states, temporary variables, For, RemoteCall, SymbolicGradient, iterators for several devices, summaries in files, V1 checkpoints.

usage: v1_ops_interop_test.py WEIR EMPTY_DIRECTORY
"""
import glob
import json
import os
import sys

from two_sessions import compare, compare_each, error_of, numbers

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import prefetching_ops, unique
from tensorflow.python.data.ops import multi_device_iterator_ops
from tensorflow.python.framework import function
from tensorflow.python.ops import functional_ops

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
raw = tf.raw_ops
v1.disable_eager_execution()
v1.disable_resource_variables()
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def sparse(indices, values, rows, columns):
    return (tf.constant(np.reshape(indices, [-1, 2]), tf.int64), tf.constant(values), tf.constant([rows, columns], tf.int64))


def crosses():
    words = sparse([0, 0, 0, 1, 2, 0], ["a", "b", "c"], 3, 2)
    counts = sparse([0, 0, 1, 0, 2, 0, 2, 1], np.array([1, 2, -3, 2**40 + 5], np.int64), 3, 2)
    dense = tf.constant([[5, 6], [7, 8], [9, -10]], tf.int64)
    texts = tf.constant([["x", ""], ["z", "\xe9"], ["", "long " * 20]])
    empty = tf.zeros([3, 0], tf.int64)
    unlike = sparse([], np.zeros([0], np.int64), 3, 4)
    choices = [([words], []), ([words, counts], []), ([counts], [dense]), ([words, counts], [texts, dense]), ([], [texts]), ([], [dense, texts]),
               ([words], [empty]), ([words, unlike], [dense]), ([words, words, words], [])]
    fetches = []
    for columns, others in choices:
        lists = dict(indices=[c[0] for c in columns], values=[c[1] for c in columns], shapes=[c[2] for c in columns], dense_inputs=others)
        for separator in ("_X_", "", "-and-"):
            fetches.append(raw.SparseCrossV2(sep=separator, **lists))
        # TensorFlow crashes for strong hashes of numbers.
        are_texts = all(each.dtype == tf.string for each in [c[1] for c in columns] + others)
        for buckets, strong, salt in ((0, False, [0, 0]), (100, False, [1, 2]), (0, are_texts, [137, 173]), (7, are_texts, [-1, 5])):
            fetches.append(raw.SparseCrossHashed(num_buckets=buckets, strong_hash=strong, salt=salt, **lists))
        for out, inside in ((tf.string, tf.string), (tf.string, tf.int64), (tf.int64, tf.string), (tf.int64, tf.int64)):
            for buckets, key in ((0, 956888297470), (1000, 1)):
                fetches.append(raw.SparseCross(hashed_output=out == tf.int64, num_buckets=buckets, hash_key=key, out_type=out, internal_type=inside, **lists))
    return fetches


def test_crosses(server):
    compare_each(server, crosses)


def wrong_crosses():
    words = sparse([0, 0, 0, 1, 2, 0], ["a", "b", "c"], 3, 2)
    more = sparse([0, 0], ["d"], 4, 1)

    def cross(columns, others=()):
        return raw.SparseCrossV2(indices=[c[0] for c in columns], values=[c[1] for c in columns], shapes=[c[2] for c in columns],
                                 dense_inputs=list(others), sep="_")

    return [cross([words, more]), cross([words], [tf.zeros([2, 1], tf.int64)]), cross([(words[0], tf.constant(["a"]), words[2])])]


def test_crosses_that_do_not_fit(server):
    compare_each(server, wrong_crosses)


JSON = ['{"features": {"feature": {"a": {"int64List": {"value": [1, "-9223372036854775808"]}}, "b": {"floatList": {"value": [1.5, "NaN", "-Infinity"]}},'
        ' "c": {"bytesList": {"value": ["aGk=", ""]}}}}}', "{}", '{"features": {}}', '{"features": {"feature": {"e": {}}}}',
        '{"features":{"feature":{"\\u00e9":{"int64_list":{"value":[3]}}}}}', ' { "features" : null } ']
NO_JSON = ["", "{", "[]", '{"feature": 1}', '{"features": {"feature": {"a": {"int64List": {"value": ["x"]}}}}}',
           '{"features": {"feature": {"a": {"floatList": {"value": [true]}}}}}', '{"features": {"feature": [1]}}', "[" * 100000]


def test_examples_in_json(server):
    def build():
        parsed = []
        for text in JSON:
            example = raw.DecodeJSONExample(json_examples=text)
            parsed.append(tf.io.parse_single_example(example, {
                "a": tf.io.VarLenFeature(tf.int64), "b": tf.io.VarLenFeature(tf.float32), "c": tf.io.VarLenFeature(tf.string),
                "\xe9": tf.io.VarLenFeature(tf.int64)}))
        shaped = tf.shape(raw.DecodeJSONExample(json_examples=[["{}", "{}"]]))
        return [[part for k in sorted(each) for part in (each[k].indices, each[k].values, each[k].dense_shape)] for each in parsed] + [shaped] + [raw.DecodeJSONExample(json_examples=text) for text in NO_JSON]

    compare_each(server, build)


def test_states_of_readers(server):
    def build():
        queue = v1.FIFOQueue(9, [tf.string], shapes=[()])
        reader, other = v1.IdentityReader("one"), v1.IdentityReader("two")
        lines = v1.TextLineReader()
        state = v1.placeholder(tf.string, [])
        bad = [reader.restore_state(text) for text in (b"\xff", b"\x08\x01", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")]
        return (queue.enqueue_many([["a", "b", "c"]]), reader.read(queue), reader.serialize_state(), state, other.restore_state(state),
                other.serialize_state(), other.num_records_produced(), other.read(queue), bad, lines.serialize_state(), lines.restore_state(""))

    outcomes = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            fill, read, state, given, restore, restored, count, read_other, bad, no_state, no_restore = build()
            with v1.Session(target) as session:
                found = [session.run(state)]
                session.run(fill)
                found += [session.run(read), session.run(state), session.run(read), session.run(state)]
                session.run(restore, {given: found[-1]})
                found += [session.run(restored), session.run(count), session.run(read_other), session.run(restored)]
                for each in bad + [no_state, no_restore]:
                    found.append(type(error_of(lambda each=each: session.run(each))).__name__)
                outcomes.append(found)
    assert outcomes[0] == outcomes[1], outcomes


def temporary_variables():
    def variable(name, dtype=tf.float32, shape=(2,)):
        return raw.TemporaryVariable(shape=shape, dtype=dtype, var_name=name)

    def destroyed(ref, name):
        return raw.DestroyTemporaryVariable(ref=ref, var_name=name)

    sum_of = variable("sum")
    begun = v1.assign(sum_of, [1.0, 2.0])
    added = v1.assign_add(begun, [10.0, 20.0])
    twice = variable("twice")
    first = v1.assign(variable("dup"), [1.0, 2.0])
    second = v1.assign(variable("dup"), [3.0, 4.0])
    unknown = v1.assign(variable("known"), [1.0, 2.0])
    final = destroyed(v1.assign(twice, [5.0, 6.0]), "twice")
    _, in_loop = v1.while_loop(lambda i, t: i < 20,
                               lambda i, t: (i + 1, t + destroyed(v1.assign(variable("looped"), [1.0, 2.0]), "looped")),
                               (0, tf.zeros([2])))
    return [destroyed(added, "sum"), final, first + second, destroyed(unknown, "unknown"), in_loop,
            destroyed(v1.assign(variable("int", tf.int32, ()), 7), "int"), v1.assign(variable("left", tf.string, (1,)), ["x"])]


def test_temporary_variables(server):
    compare_each(server, temporary_variables)
    compare_each(server, lambda: 2 * [temporary_variables()[0]])


def loops_that_count():
    @function.Defun(tf.int32, tf.float32, tf.int64)
    def body(i, x, n):
        return x * 2.0 + tf.cast(i, tf.float32), n + tf.cast(i, tf.int64)

    @function.Defun(tf.int32)
    def nothing(i):
        return []

    fetches = []
    for start, limit, delta in ((0, 5, 1), (5, 0, -2), (0, 0, 1), (3, 3, 0), (0, 10, 3), (5, 0, 1), (0, 5, -1), (0, 5, 0), (-3, 2, 2)):
        fetches.append(functional_ops.For(start, limit, delta, [tf.constant(1.0), tf.constant(0, tf.int64)], body))
    fetches.append(functional_ops.For([0], 5, 1, [tf.constant(1.0), tf.constant(0, tf.int64)], body))
    rewritten = functional_ops.For(0, 3, 1, [tf.constant(2.0), tf.constant(7, tf.int64)], body, rewrite_with_while=True)
    return fetches + [rewritten]


def test_loops_that_count(server):
    compare_each(server, loops_that_count, tolerance=1e-6)


def test_a_loop_that_counts_has_the_effects_of_its_body(server):
    def build():
        v = v1.get_variable("v", initializer=1.0, use_resource=True)

        @function.Defun(tf.int32, tf.resource, tf.float32)
        def body(i, handle, x):
            with tf.control_dependencies([raw.AssignAddVariableOp(resource=handle, value=tf.cast(i, tf.float32))]):
                return handle, x + 1.0

        loop = functional_ops.For(1, 5, 1, [v.handle, tf.constant(0.0)], body)
        return v.initializer, loop[1], v

    def steps(session, model):
        session.run(model[0])
        return [session.run(model[i]) for i in (1, 2, 1, 2)]

    compare(server, build, steps)


def remote_calls():
    @function.Defun(tf.float32, tf.float32)
    def f(a, b):
        return a * b + 1.0, a - b

    a, b = tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0])
    called = functional_ops.remote_call(target=CPU, args=[a, b], Tout=[tf.float32, tf.float32], f=f)
    short = functional_ops.remote_call(target="/cpu:0", args=[a, b], Tout=[tf.float32, tf.float32], f=f)
    joined = functional_ops.remote_call(target=tf.strings.join([CPU[:10], CPU[10:]]), args=[a, b], Tout=[tf.float32, tf.float32], f=f)
    return [called, called[1] * 2.0, short, joined]


def test_functions_on_other_devices(server):
    compare_each(server, remote_calls)


def test_functions_on_devices_that_are_fed(server):
    @function.Defun(tf.float32)
    def f(a):
        return a * 2.0

    with tf.Graph().as_default(), v1.Session(server.target()) as session:
        target = v1.placeholder(tf.string, [])
        call = functional_ops.remote_call(target=target, args=[tf.constant(4.0)], Tout=[tf.float32], f=f)
        assert session.run(call, {target: CPU})[0] == 8.0
        for wrong in ("/job:nobody/replica:0/task:3/device:CPU:0", "nonsense", "/device:GPU:7"):
            assert isinstance(error_of(lambda: session.run(call, {target: wrong})), tf.errors.InvalidArgumentError), wrong


def gradients_of_functions():
    @function.Defun(tf.float32, tf.float32)
    def f(x, y):
        return tf.sin(x) * y + tf.reduce_sum(x), tf.cast(x > y, tf.int32)

    @function.Defun(tf.float32)
    def outer(x):
        a, _ = f(x, x * 2.0)
        return a + f(tf.exp(x), x)[0]

    @function.Defun(tf.float32, tf.float32)
    def only_first(x, y):
        return tf.square(x), y * 0.0

    @function.Defun(tf.float32, tf.float32)
    def own_gradient(x, dy):
        return dy * 100.0 + x

    @function.Defun(tf.float32, grad_func=own_gradient)
    def with_gradient(x):
        return x * x

    @function.Defun(tf.float32)
    def calls_with_gradient(x):
        return with_gradient(tf.sin(x)) * 2.0 + with_gradient(x)

    @function.Defun(tf.float32, tf.int32, tf.float32, tf.float32, tf.int32)
    def gradient_of_two(x, n, y, dx, dn):
        return dx * 3.0 + x, dn, dx * y

    @function.Defun(tf.float32, tf.int32, tf.float32, grad_func=gradient_of_two)
    def two(x, n, y):
        return with_gradient(x) + y, n

    @function.Defun(tf.float32, tf.float32)
    def calls_two(x, y):
        a, n = two(x * y, tf.constant(4), calls_with_gradient(y))
        return a * tf.cast(n, tf.float32) + two(a, n, x)[0]

    x, y = tf.constant([0.5, 1.5, -1.0]), tf.constant([2.0, 0.25, 3.0])
    z = f(x, y)[0]
    fetches = [v1.gradients(z, [x, y]), v1.gradients(outer(x), x), v1.gradients(outer(x), x, grad_ys=[tf.constant([1.0, 2.0, 3.0])]),
               v1.gradients(only_first(x, y)[0], [x, y]), v1.gradients(with_gradient(x), x),
               v1.gradients(calls_with_gradient(x), x), v1.gradients(calls_two(x, y), [x, y])]
    call = functional_ops.symbolic_gradient(input=[x, y, tf.ones([3]), tf.zeros([3], tf.int32)], Tout=[tf.float32, tf.float32], f=f)
    wrong = functional_ops.symbolic_gradient(input=[x, tf.ones([3])], Tout=[tf.float32], f=f)
    return fetches + [call, wrong]


def test_gradients_of_functions(server):
    compare_each(server, gradients_of_functions, tolerance=1e-5)
    with tf.Graph().as_default():
        gradients_of_functions()
        ops = {node.op for node in v1.get_default_graph().as_graph_def().node}
        assert "SymbolicGradient" in ops, ops


def test_iterators_for_several_devices(server):
    def outcomes(target, num_devices, dataset, asked, max_buffer_size=1):
        devices = ["/cpu:%d" % i for i in range(num_devices)]
        with tf.Graph().as_default(), v1.Session(target, config=v1.ConfigProto(device_count={"CPU": 3})) as session:
            iterator = multi_device_iterator_ops.MultiDeviceIterator(dataset(), devices, max_buffer_size=max_buffer_size)
            elements = iterator.get_next()
            found = []
            for _ in range(2):
                session.run(iterator.initializer)
                for i in asked:
                    try:
                        found.append(session.run(elements if i is None else elements[i]))
                    except tf.errors.OpError as error:
                        found.append(type(error).__name__)
            return found

    def failing():
        return tf.data.Dataset.range(6).map(lambda v: tf.debugging.check_numerics(1.0 / tf.cast(v - 2, tf.float32), "no"))

    for arguments in ((2, lambda: tf.data.Dataset.range(7), [None] * 5), (3, lambda: tf.data.Dataset.range(3).map(lambda v: (v, v * 2)), [None] * 2),
                      (1, lambda: tf.data.Dataset.range(3), [0] * 4), (2, lambda: tf.data.Dataset.range(8), [0, 1, 1, 0, None], 4),
                      (2, failing, [0, 1, 0, 1])):
        theirs, ours = outcomes("", *arguments), outcomes(server.target(), *arguments)
        assert theirs == ours, (arguments, theirs, ours)


def drained(target, build):
    with tf.Graph().as_default(), v1.Session(target, config=v1.ConfigProto(device_count={"CPU": 3})) as session:
        iterator = v1.data.make_initializable_iterator(build())
        element = iterator.get_next()
        found = []
        for _ in range(2):
            session.run(iterator.initializer)
            try:
                while len(found) < 100:
                    found.append(session.run(element))
            except tf.errors.OpError as error:
                found.append(type(error).__name__)
        return found


def test_elements_copied_to_another_device(server):
    Dataset = tf.data.Dataset
    copy = prefetching_ops.copy_to_device
    for build in (lambda: Dataset.range(5).apply(copy("/cpu:1")), lambda: Dataset.range(5).apply(copy("/cpu:1")).prefetch(1),
                  lambda: Dataset.range(4).map(lambda v: (v, tf.cast(v, tf.float32))).apply(copy("/cpu:1", "/cpu:0")).take(3),
                  lambda: Dataset.range(3).apply(copy("/cpu:2")).repeat(2)):
        assert drained("", build) == drained(server.target(), build)


def test_elements_that_are_unique(server):
    Dataset = tf.data.Dataset
    for build in (lambda: Dataset.from_tensor_slices([1, 2, 1, 3, 2]).apply(unique.unique()), lambda: Dataset.range(9).map(lambda v: v % 4).unique(),
                  lambda: Dataset.from_tensor_slices(["a", "", "a", "b"]).unique(), lambda: Dataset.from_tensor_slices([1.0, 1.0]).unique()):
        try:
            expected = drained("", build)
        except (TypeError, ValueError):
            continue
        assert expected == drained(server.target(), build)


def events_of(folder):
    events = []
    for path in sorted(glob.glob(folder + "/*")):
        for event in v1.train.summary_iterator(path):
            if event.HasField("file_version"):
                continue
            event.wall_time = 0
            events.append(event)
    return events


def test_summaries_in_files(server, directory):
    graph = tf.compat.v1.GraphDef(node=[tf.compat.v1.NodeDef(name="a", op="NoOp")])
    value = v1.Summary(value=[v1.Summary.Value(tag="raw", simple_value=2.0)])
    images = numbers(2, 3, 4, 3)
    sounds = numbers(2, 50, 1)
    found = []
    for target, folder in (("", directory + "/theirs"), (server.target(), directory + "/ours")):
        with tf.Graph().as_default(), v1.Session(target) as session:
            writer = raw.SummaryWriter(shared_name="w", container="")
            create = raw.CreateSummaryFileWriter(writer=writer, logdir=folder, max_queue=10, flush_millis=100000, filename_suffix=".v")
            session.run(create)
            step = tf.constant(3, tf.int64)
            event = v1.Event(step=9, summary=value, wall_time=5.0)
            for op in (raw.WriteHistogramSummary(writer=writer, step=step, tag="h", values=numbers(30)),
                       raw.WriteHistogramSummary(writer=writer, step=step, tag="i", values=tf.constant([1, 2, 2, 9])),
                       raw.WriteImageSummary(writer=writer, step=step, tag="img", tensor=images, bad_color=tf.constant([255, 0, 0, 255], tf.uint8)),
                       raw.WriteImageSummary(writer=writer, step=step, tag="one", tensor=tf.constant(np.arange(16).reshape(1, 4, 4, 1), tf.uint8),
                                             bad_color=tf.constant([255], tf.uint8), max_images=1),
                       raw.WriteAudioSummary(writer=writer, step=step, tag="snd", tensor=sounds, sample_rate=8000.0, max_outputs=1),
                       raw.WriteGraphSummary(writer=writer, step=step, tensor=graph.SerializeToString()),
                       raw.WriteRawProtoSummary(writer=writer, step=step, tensor=[value.SerializeToString(), value.SerializeToString()]),
                       raw.ImportEvent(writer=writer, event=event.SerializeToString())):
                session.run(op)
            wrong = []
            for op in (raw.WriteGraphSummary(writer=writer, step=step, tensor="\xff\xff"), raw.ImportEvent(writer=writer, event="\xff\xff"),
                       raw.WriteRawProtoSummary(writer=writer, step=step, tensor=["\xff\xff"]),
                       raw.WriteImageSummary(writer=writer, step=step, tag="x", tensor=numbers(2, 2), bad_color=tf.constant([1], tf.uint8)),
                       raw.WriteHistogramSummary(writer=writer, step=step, tag="x", values=[np.nan])):
                wrong.append(type(error_of(lambda op=op: session.run(op))).__name__)
            session.run(raw.CloseSummaryWriter(writer=writer))
            found.append((events_of(folder), wrong))
    (theirs, wrong), (ours, our_wrong) = found
    assert wrong == our_wrong, (wrong, our_wrong)
    assert len(theirs) == len(ours), (len(theirs), len(ours))
    for their, our in zip(theirs, ours):
        for a, b in zip(their.summary.value, our.summary.value):
            if a.HasField("image"):  # two encoders
                with tf.Graph().as_default(), v1.Session() as session:
                    pixels = session.run([tf.image.decode_png(each.image.encoded_image_string) for each in (a, b)])
                np.testing.assert_array_equal(*pixels)
                a.image.encoded_image_string = b.image.encoded_image_string = b""
        assert their == our, (their, our)


def test_checkpoints_of_the_first_format(server, directory):
    def build():
        a = v1.get_variable("a", initializer=numbers(4, 3))
        parts = v1.get_variable("parts", shape=[5, 2], initializer=v1.constant_initializer(2.0), partitioner=v1.fixed_size_partitioner(2))
        others = [v1.get_variable("v_%s" % tf.as_dtype(t).name, initializer=np.array([1, 0, 3], t)) for t in
                  (np.float64, np.int32, np.int64, np.uint8, np.int8, np.int16, np.float16, np.complex64, np.bool_)]
        text = v1.get_variable("text", initializer=["x", "", "long " * 50])
        change = [v1.assign_add(a, tf.ones_like(a)), v1.assign(text, ["1", "2", "3"])]
        plain = v1.train.Saver(write_version=v1.train.SaverDef.V1)
        sharded = v1.train.Saver(write_version=v1.train.SaverDef.V1, sharded=True)
        return [a, tf.convert_to_tensor(parts), text] + others, change, plain, sharded

    targets = ("", server.target())
    for writes in targets:
        with tf.Graph().as_default(), v1.Session(writes) as session:
            values, change, *savers = build()
            session.run(v1.global_variables_initializer())
            session.run(change)
            expected = session.run(values)
            paths = [saver.save(session, "%s/%s_%d" % (directory, "theirs" if writes == "" else "ours", i)) for i, saver in enumerate(savers)]
        for reads in targets:
            for i, path in enumerate(paths):
                with tf.Graph().as_default(), v1.Session(reads) as session:
                    values, change, *savers = build()
                    savers[i].restore(session, path)
                    for value, found in zip(expected, session.run(values)):
                        np.testing.assert_array_equal(found, value)
                    partial = raw.RestoreSlice(file_pattern=paths[0], tensor_name="a", shape_and_slice="4 3 1,2:0,2", dt=tf.float32)
                    np.testing.assert_array_equal(session.run(partial), expected[0][1:3, :2])
    checks = []
    for target in targets:
        with tf.Graph().as_default(), v1.Session(target) as session:
            restore = lambda **more: raw.RestoreSlice(**{**dict(file_pattern=paths[0], tensor_name="a", shape_and_slice="", dt=tf.float32), **more})
            checks.append([type(error_of(lambda op=op: session.run(op))).__name__ for op in (
                restore(tensor_name="missing"), restore(dt=tf.int32), restore(shape_and_slice="3 3 0,1:0,1"), restore(file_pattern=directory + "/none"),
                raw.SaveSlices(filename=directory + "/x", tensor_names=["a"], shapes_and_slices=["4 0,3"], data=[tf.ones([2])]))])
    assert checks[0] == checks[1], checks


if __name__ == "__main__":
    os.makedirs(sys.argv[2], exist_ok=True)
    with WeirServers(sys.argv[1], {"localhost": 1}, ["--num_cpus=3"]) as local:
        code = cases.run(globals(), lambda case, name: case(*[local, sys.argv[2]][: case.__code__.co_argcount]))
        if code != 0:
            print(local.output())
    sys.exit(code)
