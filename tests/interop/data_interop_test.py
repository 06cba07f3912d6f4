"""Datasets and iterators on `weir serve`: elements, their order, errors and ends as in TensorFlow's own session; also pipelines that a seed composes.

usage: data_interop_test.py WEIR EMPTY_DIRECTORY
"""
import gzip
import os
import random
import sqlite3
import sys
import zlib

from two_sessions import error_of, numbers

import numpy as np
import tensorflow as tf

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
data = v1.data
Dataset = data.Dataset
v1.disable_eager_execution()
SEEDS = range(40)
LIMIT = 60


def drained(session, element, limit=LIMIT):
    """What the iterator gives, then how it ended: "more", or the error's class."""
    rows = []
    for _ in range(limit):
        try:
            rows.append(session.run(element))
        except tf.errors.OpError as error:
            return rows, type(error).__name__
    return rows, "more"


def flat(value):
    return [np.asarray(v) for v in tf.nest.flatten(value, expand_composites=True)]


def assert_same(expected, found, what):
    assert len(expected[0]) == len(found[0]) and expected[1] == found[1], (what, expected, found)
    for i, (e, f) in enumerate(zip(expected[0], found[0])):
        for one, other in zip(flat(e), flat(f)):
            np.testing.assert_array_equal(other, one, err_msg="%s, element %d" % (what, i))


def compare_datasets(server, builders):
    """Each builder gives a dataset, which both sessions iterate over twice."""
    results = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            v1.set_random_seed(7)
            iterators = [data.make_initializable_iterator(build()) for build in builders]
            elements = [iterator.get_next() for iterator in iterators]
            with v1.Session(target) as session:
                outcomes = []
                for iterator, element in zip(iterators, elements):
                    for _ in range(2):
                        refusal = type_of(lambda: session.run(iterator.initializer))
                        outcomes.append(drained(session, element) if refusal == "no error" else ([], refusal))
                results.append(outcomes)
    for i, (expected, found) in enumerate(zip(*results)):
        assert_same(expected, found, "dataset %d, pass %d" % (i // 2, i % 2))


def test_sources_and_selections(server):
    r = Dataset.range
    compare_datasets(server, [
        lambda: r(5), lambda: r(2, 11, 3), lambda: r(5, 0, -2), lambda: r(5, 5), lambda: r(3, output_type=tf.float32),
        lambda: Dataset.from_tensors((numbers(2, 3), tf.constant("a"))),
        lambda: Dataset.from_tensor_slices((numbers(4, 3), np.array(["a", "b", "c", "d"]))),
        lambda: r(3).repeat(2), lambda: r(3).repeat(0), lambda: r(2).repeat(), lambda: r(0).repeat(),
        lambda: r(5).take(3), lambda: r(5).take(-1), lambda: r(5).skip(2), lambda: r(5).skip(-1), lambda: r(5).skip(9),
        lambda: r(7).shard(3, 1), lambda: r(4).concatenate(r(2)), lambda: Dataset.zip((r(3), r(5).map(lambda v: v * 2))),
        lambda: r(4).enumerate(),
    ])


def test_batches(server):
    r = Dataset.range
    ragged = lambda: r(7).map(lambda v: tf.fill([v % 4 + 1, 2], v))
    compare_datasets(server, [
        lambda: r(7).batch(3), lambda: r(7).batch(3, drop_remainder=True), lambda: r(6).batch(3), lambda: r(0).batch(2),
        lambda: r(7).batch(3, num_parallel_calls=2), lambda: Dataset.from_tensor_slices(np.array(["a", "bb", "c"])).batch(2),
        lambda: ragged().batch(2),
        lambda: ragged().padded_batch(3, padded_shapes=[None, 2]), lambda: ragged().padded_batch(3, padded_shapes=[6, 3], padding_values=np.int64(-1)),
        lambda: ragged().padded_batch(3, padded_shapes=[2, 2]),
        lambda: ragged().padded_batch(2, padded_shapes=[None, 2], drop_remainder=True),
        lambda: Dataset.from_tensor_slices(numbers(5, 2)).batch(3).unbatch(), lambda: r(6).batch(4).unbatch().batch(5),
    ])


def test_shuffles(server):
    r = Dataset.range
    compare_datasets(server, [
        lambda: r(10).shuffle(4, seed=3), lambda: r(10).shuffle(100, seed=3), lambda: r(10).shuffle(1, seed=3),
        lambda: r(6).shuffle(3, seed=3).repeat(3), lambda: r(6).shuffle(3, seed=3, reshuffle_each_iteration=False).repeat(3),
        lambda: r(6).repeat(2).shuffle(5, seed=9), lambda: r(10).shuffle(4), lambda: r(0).shuffle(4, seed=1),
        lambda: r(9).shuffle(3, seed=1).batch(2).shuffle(4, seed=2),
    ])


def test_functions(server):
    r = Dataset.range

    def captured():
        offset = tf.constant(np.arange(3), tf.int64)
        return r(4).map(lambda v: (v + offset, v))

    def looped():
        return r(4).map(lambda v: tf.while_loop(lambda i, s: i < v, lambda i, s: (i + 1, s + i), [tf.constant(0, tf.int64), tf.constant(0, tf.int64)])[1])

    def branched():
        return r(5).map(lambda v: tf.cond(v > 2, lambda: v * 10, lambda: -v))

    compare_datasets(server, [
        captured, looped, branched,
        lambda: r(5).map(lambda v: v * v), lambda: r(20).map(lambda v: v * v, num_parallel_calls=4),
        lambda: looped().map(lambda v: v + 1, num_parallel_calls=3), lambda: r(30).map(lambda v: v + 1, num_parallel_calls=tf.data.AUTOTUNE),
        lambda: r(8).filter(lambda v: tf.equal(v % 3, 1)), lambda: r(8).take_while(lambda v: v < 5),
        lambda: r(5).scan(np.int64(1), lambda s, v: (s + v, s * v)),
        lambda: r(4).flat_map(lambda v: r(v)), lambda: r(4).flat_map(lambda v: Dataset.from_tensors(v).repeat(v)),
        lambda: r(5).interleave(lambda v: Dataset.from_tensors(v).repeat(3), cycle_length=2, block_length=2),
        lambda: r(5).interleave(lambda v: r(v), cycle_length=3), lambda: r(7).interleave(lambda v: r(v), cycle_length=3, block_length=4),
        lambda: r(6).interleave(lambda v: Dataset.from_tensors(v).repeat(v), cycle_length=3, block_length=2, num_parallel_calls=2),
        lambda: r(7).window(3).flat_map(lambda w: w.batch(3)), lambda: r(7).window(3, shift=1, stride=2, drop_remainder=True).flat_map(lambda w: w.batch(3)),
        lambda: r(7).window(2, shift=4).flat_map(lambda w: w.batch(3)),
        lambda: r(10).group_by_window(lambda v: v % 3, lambda k, w: w.batch(4), window_size=2),
        lambda: r(10).group_by_window(lambda v: v % 2, lambda k, w: w.map(lambda v: v + k), window_size_func=lambda k: k + 1),
        lambda: r(4).cache().repeat(2), lambda: r(6).prefetch(2), lambda: r(6).prefetch(tf.data.AUTOTUNE), lambda: r(6).map(lambda v: v * 2).prefetch(0),
        lambda: r(4).map(lambda v: tf.debugging.check_numerics(1.0 / tf.cast(v - 2, tf.float32), "bad")),
        lambda: r(4).map(lambda v: tf.debugging.check_numerics(1.0 / tf.cast(v - 2, tf.float32), "bad"), num_parallel_calls=3),
        lambda: r(4).map(lambda v: tf.debugging.check_numerics(1.0 / tf.cast(v - 2, tf.float32), "bad")).prefetch(3),
        lambda: r(5).map(lambda v: tf.random.uniform([2], seed=3)).repeat(2),
        lambda: r(5).map(lambda v: Dataset.range(v)).flat_map(lambda d: d),
    ])


def test_conditions_choices_and_random_numbers(server):
    r = Dataset.range
    experimental = data.experimental
    inverse = lambda n: r(n).map(lambda v: tf.debugging.check_numerics(1.0 / tf.cast(v - 2, tf.float32), "bad"))
    chosen = lambda numbers, **more: experimental.choose_from_datasets([r(3), r(10, 14)], Dataset.from_tensor_slices(np.array(numbers, np.int64)), **more)
    compare_datasets(server, [
        lambda: inverse(5).apply(experimental.ignore_errors()), lambda: inverse(3).apply(experimental.ignore_errors()),
        lambda: r(4).apply(experimental.assert_cardinality(4)), lambda: r(4).apply(experimental.assert_cardinality(3)), lambda: r(4).apply(experimental.assert_cardinality(5)),
        lambda: chosen([0, 1, 1, 0]), lambda: chosen([0, 0, 0, 0, 1, 0, 1, 1]), lambda: chosen([0, 0, 0, 0, 1], stop_on_empty_dataset=True), lambda: chosen([0, 2]),
        lambda: experimental.RandomDataset(seed=42).take(6), lambda: experimental.RandomDataset(seed=42).batch(3).take(2),
        lambda: experimental.sample_from_datasets([r(5), r(10, 15)], seed=3),
    ])


def saved_pass(target, build, folder):
    """The elements of a pass that a checkpoint divides: those before, those after in the same and in another session."""
    rows = []
    for begins in (True, False):
        with tf.Graph().as_default():
            v1.set_random_seed(7)
            iterator = data.make_initializable_iterator(build())
            element = iterator.get_next()
            v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, data.experimental.make_saveable_from_iterator(iterator))
            saver = v1.train.Saver(allow_empty=True)
            with v1.Session(target) as session:
                session.run(iterator.initializer)
                if begins:
                    rows += [session.run(element) for _ in range(4)]
                    saver.save(session, os.path.join(folder, "pass"))
                else:
                    saver.restore(session, os.path.join(folder, "pass"))
                rows += drained(session, element)[0]
    return rows, ""


def test_positions_in_checkpoints(server):
    r = Dataset.range
    for i, build in enumerate([
            lambda: r(9), lambda: r(9).map(lambda v: v * v).batch(2), lambda: r(9).shuffle(4, seed=3).repeat(2), lambda: r(9).prefetch(3),
            lambda: r(5).flat_map(lambda v: r(v)), lambda: r(9).map(lambda v: tf.strings.as_string(v), num_parallel_calls=3).cache().repeat(2),
            lambda: r(10).group_by_window(lambda v: v % 3, lambda k, w: w.batch(4), window_size=2)]):
        results = []
        for name, target in (("tensorflow", ""), ("weir", server.target())):
            folder = os.path.join(sys.argv[2], "%s%d" % (name, i))
            os.makedirs(folder)
            results.append(saved_pass(target, build, folder))
        assert_same(results[0], results[1], "pass %d" % i)


def test_refusals(server):
    r = Dataset.range
    zero = lambda: tf.constant(0, tf.int64)
    compare_datasets(server, [
        lambda: r(3).batch(zero()), lambda: r(3).shard(zero(), 0), lambda: r(3).shard(2, zero() + 2), lambda: r(3).shuffle(zero(), seed=1),
        lambda: r(0, 3, zero()), lambda: r(3).prefetch(zero() - 2), lambda: r(3).window(zero()), lambda: r(3).interleave(lambda v: r(v), cycle_length=zero()),
        lambda: r(3).group_by_window(lambda v: v, lambda k, w: w, window_size=zero()),
        lambda: data.TextLineDataset("/nowhere/at/all"),
    ])


def composed(seed):
    """A pipeline of some stages on numbers, each drawn by the seed."""
    draw = random.Random(seed)
    stages = [
        lambda d: d.map(lambda v: v * 3 + 1),
        lambda d: d.map(lambda v: v - 2, num_parallel_calls=draw.randint(1, 4)),
        lambda d: d.filter(lambda v: v % 3 < 2),
        lambda d: d.shuffle(draw.randint(1, 6), seed=draw.randint(1, 9), reshuffle_each_iteration=draw.random() < 0.5),
        lambda d: d.repeat(draw.randint(1, 3)),
        lambda d: d.take(draw.randint(1, 15)),
        lambda d: d.skip(draw.randint(0, 4)),
        lambda d: d.shard(2, draw.randint(0, 1)),
        lambda d: d.batch(draw.randint(1, 4), drop_remainder=draw.random() < 0.5).unbatch(),
        lambda d: d.batch(3).map(lambda v: tf.reduce_sum(v)),
        lambda d: d.prefetch(draw.randint(0, 3)),
        lambda d: d.cache(),
        lambda d: d.concatenate(Dataset.range(draw.randint(0, 4))),
        lambda d: Dataset.zip((d, Dataset.range(12))).map(lambda a, b: a + b),
        lambda d: d.flat_map(lambda v: Dataset.range(v % 4)),
        lambda d: d.interleave(lambda v: Dataset.from_tensors(v).repeat(v % 3 + 1), cycle_length=draw.randint(1, 3), block_length=draw.randint(1, 2)),
        lambda d: d.window(draw.randint(1, 3), shift=draw.randint(1, 3)).flat_map(lambda w: w.batch(4)).map(lambda v: tf.reduce_max(v)),
        lambda d: d.scan(np.int64(0), lambda s, v: (s + v, s)),
        lambda d: d.take_while(lambda v: v < 40),
    ]
    dataset = Dataset.range(draw.randint(3, 12))
    for _ in range(draw.randint(2, 6)):
        dataset = draw.choice(stages)(dataset)
    return dataset


def test_pipelines_that_a_seed_composes(server):
    for first in range(0, len(SEEDS), 10):
        compare_datasets(server, [lambda seed=seed: composed(seed) for seed in SEEDS[first:first + 10]])


def test_one_shot_iterators_strings_optionals_and_cardinalities(server):
    results = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            v1.set_random_seed(7)
            once = data.make_one_shot_iterator(Dataset.range(4).map(lambda v: v * 2)).get_next()
            first = data.make_initializable_iterator(Dataset.range(3))
            second = data.make_one_shot_iterator(Dataset.range(10, 13))
            handle = v1.placeholder(tf.string, [])
            fed = data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
            either = data.Iterator.from_structure(tf.int64, [])
            starts = [either.make_initializer(Dataset.range(2)), either.make_initializer(Dataset.range(5, 9))]
            optional = data.get_next_as_optional(either) if hasattr(data, "get_next_as_optional") else data.experimental.get_next_as_optional(either)
            has_value = optional.has_value()
            reduced = Dataset.range(5).reduce(np.int64(0), lambda s, v: s + v)
            sizes = [v1.data.experimental.cardinality(d) for d in (Dataset.range(5), Dataset.range(3).repeat(), Dataset.range(3).filter(lambda v: v > 1), Dataset.range(7).batch(3))]
            uninitialized = data.make_initializable_iterator(Dataset.range(3)).get_next()
            with v1.Session(target) as session:
                values = [drained(session, once), drained(session, uninitialized)]
                session.run(first.initializer)
                names = session.run([first.string_handle(), second.string_handle()])
                for name in names + names:
                    values.append(([session.run(fed, {handle: name})], ""))
                values.append(drained(session, first.get_next()))
                values.append(([session.run(reduced)] + session.run(sizes), ""))
                for start in starts + starts[:1]:
                    session.run(start)
                    values.append(([session.run(has_value) for _ in range(4)], ""))
                values.append(([type_of(lambda: session.run(fed, {handle: "no iterator"}))], ""))
                results.append(values)
    for i, (expected, found) in enumerate(zip(*results)):
        assert_same(expected, found, "value %d" % i)


def type_of(call):
    try:
        call()
    except tf.errors.OpError as error:
        return type(error).__name__
    return "no error"


def test_variables_and_tables_in_functions(server):
    results = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            variable = v1.get_variable("offset", initializer=np.int64(5), use_resource=True)
            table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1, 2], tf.int64), tf.constant([7, 8, 9], tf.int64)), -1)
            iterator = data.make_initializable_iterator(Dataset.range(5).map(lambda v: (v + variable, table.lookup(v))))
            element = iterator.get_next()
            with v1.Session(target) as session:
                session.run([variable.initializer, v1.tables_initializer()])
                session.run(iterator.initializer)
                rows = drained(session, element)[0]
                session.run(variable.assign(100))  # TensorFlow computes ahead what it may: between passes
                session.run(iterator.initializer)
                results.append((rows + drained(session, element)[0], ""))
    assert_same(results[0], results[1], "variables and tables")


def test_files(server):
    folder = sys.argv[2]
    lines = [b"one", b"", b"two\r", b"three"]
    paths = {}
    for compression in ("", "GZIP", "ZLIB"):
        path = os.path.join(folder, "records" + compression)
        with tf.io.TFRecordWriter(path, compression) as writer:
            for i in range(5):
                writer.write(b"record %d" % i)
        paths[compression] = path
    text = os.path.join(folder, "lines.txt")
    with open(text, "wb") as file:
        file.write(b"\n".join(lines))
    pieces = os.path.join(folder, "pieces")
    with open(pieces, "wb") as file:
        file.write(b"HHaabbccFFF")
    damaged = os.path.join(folder, "damaged")
    with open(paths[""], "rb") as source, open(damaged, "wb") as file:
        content = bytearray(source.read())
        content[40] ^= 1
        file.write(content)
    cut = os.path.join(folder, "cut")
    with open(cut, "wb") as file:
        file.write(open(paths[""], "rb").read()[:-3])
    fixed = lambda size, *more: (lambda: data.FixedLengthRecordDataset(pieces, size, 2, 3, *more))
    compressed = {"GZIP": os.path.join(folder, "pieces.gz"), "ZLIB": os.path.join(folder, "pieces.z")}
    for kind, compress in (("GZIP", gzip.compress), ("ZLIB", zlib.compress)):
        with open(compressed[kind], "wb") as file:
            file.write(compress(b"HHaabbccFFF"))
    packed = lambda kind, size, footer=3: (lambda: data.FixedLengthRecordDataset(compressed[kind], size, 2, footer, compression_type=kind))
    compare_datasets(server, [
        lambda: data.TFRecordDataset(paths[""]), lambda: data.TFRecordDataset([paths["GZIP"]] * 2, "GZIP"), lambda: data.TFRecordDataset(paths["ZLIB"], "ZLIB"),
        lambda: data.TFRecordDataset([paths["GZIP"], paths["GZIP"]], "GZIP", num_parallel_reads=2),
        lambda: data.TextLineDataset(text), lambda: data.TextLineDataset([text, text]), fixed(2), fixed(3), fixed(1), fixed(4), fixed(5),
        *(packed(kind, *sizes) for kind in compressed for sizes in ((2,), (3,), (4,), (5,), (7,), (2, 0), (4, 1), (2, 9))),
        lambda: data.TFRecordDataset(damaged), lambda: data.TFRecordDataset(cut), lambda: data.TFRecordDataset(text), lambda: data.TFRecordDataset(os.path.join(folder, "absent")),
    ])


def test_rows_of_a_database(server):
    path = os.path.join(sys.argv[2], "rows.db")
    database = sqlite3.connect(path)
    database.execute("create table t(a integer, b text, c real, d blob)")
    database.executemany("insert into t values(?, ?, ?, ?)", [(1, "x", 0.5, b"a\0b"), (300, "4", 1.5, None), (None, None, None, b""), (-5000000000, "y", "z", b"q")])
    database.commit()
    database.close()

    def rows(query, types, path=path):
        return lambda: data.experimental.SqlDataset("sqlite", path, query, types)

    compare_datasets(server, [
        rows("select a, b, c, d from t", (tf.int64, tf.string, tf.float64, tf.string)), rows("select a, a, a, a, a, a, a from t order by b", (tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16, tf.bool, tf.string)),
        rows("select b, c, d from t", (tf.int64, tf.int32, tf.float64)), rows("select a from t where 0", (tf.int32,)), rows("select a from t; select b from t", (tf.int32,)),
        lambda: rows("select b from t", (tf.string,))().batch(3).repeat(2),
    ])


def test_caches_in_files(server):
    """What one of both has written the other reads."""
    folder = os.path.join(sys.argv[2], "caches")
    os.makedirs(folder)

    def passes(target, name, builds, more=1):
        outcomes = []
        for build in builds:
            with tf.Graph().as_default():
                iterator = data.make_initializable_iterator(build().cache(os.path.join(folder, name)))
                element = iterator.get_next()
                with v1.Session(target) as session:
                    for _ in range(more):
                        session.run(iterator.initializer)
                        outcomes.append(drained(session, element))
        return outcomes

    r = Dataset.range
    builds = [lambda: r(12).map(lambda v: (v, tf.strings.as_string(v), tf.fill([v % 3], v))), lambda: r(3).map(lambda v: (v, tf.strings.as_string(v), tf.fill([1], v)))]
    for writer, name in (("", "of_tensorflow"), (server.target(), "of_weir")):
        expected = passes("", "expected_" + name, builds, 2)
        for reader in (writer, "", server.target()):
            for e, f in zip(expected, passes(reader, name, builds, 2)):
                assert_same(e, f, "a cache of %s" % name)
        with_names = {file for file in os.listdir(folder) if file.startswith(name)}
        assert with_names == {name + ".index", name + ".data-00000-of-00001"}, with_names
    outcomes = [passes(target, "of_tensorflow", [lambda: r(3).map(lambda v: (v, v, v))]) + passes(target, name + "_empty", [lambda: r(0)], 2)
                for target, name in (("", "tensorflow"), (server.target(), "weir"))]
    for e, f in zip(*outcomes):
        assert_same(e, f, "a cache")
    outcomes = []
    for target, name in (("", "tensorflow_both"), (server.target(), "weir_both")):
        with tf.Graph().as_default(), v1.Session(target) as session:
            iterators = [data.make_initializable_iterator(r(3).cache(os.path.join(folder, name))) for _ in range(2)]
            elements = [iterator.get_next() for iterator in iterators]
            session.run([iterator.initializer for iterator in iterators])
            assert session.run(elements[0]) == 0
            outcomes.append(error_of(lambda: session.run(elements[1])))
            session.run(iterators[0].initializer)  # gives the first pass up
            session.run(iterators[1].initializer)
            assert [session.run(elements[1]) for _ in range(3)] == [0, 1, 2]
    assert type(outcomes[0]) is type(outcomes[1]) is tf.errors.AlreadyExistsError
    assert "there appears to be a concurrent caching iterator running" in outcomes[1].message.lower(), outcomes[1]


def test_a_step_that_waits_for_an_element_is_cancelled(server):
    with tf.Graph().as_default():
        queue = v1.FIFOQueue(2, tf.int64, [])
        put = queue.enqueue(np.int64(7))
        for parallel in (None, 2):
            dataset = Dataset.range(9).map(lambda v: v + queue.dequeue(), num_parallel_calls=parallel)
            for stage in (dataset, dataset.prefetch(2)):
                iterator = data.make_initializable_iterator(stage)
                element = iterator.get_next()
                with v1.Session(server.target()) as session:
                    session.run(iterator.initializer)
                    try:
                        session.run(element, options=v1.RunOptions(timeout_in_ms=300))
                        raise AssertionError("nothing was put into the queue")
                    except tf.errors.DeadlineExceededError:
                        pass
                    session.run(put)
                    assert session.run(tf.constant(3)) == 3


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
