"""Pipelines of datasets as graphs on `weir serve`, as in TensorFlow's own session: rewrites that options ask for, what AssertNext and AssertPrev see
of them, pipelines that are written as graphs and read again, fingerprints.

usage: data_pipelines_interop_test.py WEIR EMPTY_DIRECTORY
"""
import os
import sys

import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing
from tensorflow.python.data.ops import dataset_ops

import cases
from data_interop_test import assert_same, compare_datasets, drained
from weir_server import WeirServers

v1 = tf.compat.v1
data = v1.data
Dataset = data.Dataset
raw = tf.raw_ops
v1.disable_eager_execution()


def asking(dataset, **wanted):
    """The dataset, with these rewrites and no others."""
    options = tf.data.Options()
    options.autotune.enabled = wanted.pop("autotune", True)
    options.experimental_optimization.apply_default_optimizations = False
    for name, value in wanted.items():
        setattr(options.experimental_optimization, name, value)
    return dataset.with_options(options)


def sees(dataset, *names):
    return dataset.apply(testing.assert_next(list(names)))


def plain(dataset):
    return asking(dataset)


def test_names_of_what_is_made_of_a_dataset(server):
    r = Dataset.range
    compare_datasets(server, [
        lambda: plain(sees(r(4), "Map", "Batch", "FiniteTake").map(lambda v: v + 1).batch(2).take(1)),
        lambda: plain(sees(r(4), "Root")), lambda: plain(sees(r(4), "Root", "Nothing")), lambda: plain(sees(r(4), "Nothing")),
        lambda: plain(sees(r(4), "Take").take(2)), lambda: plain(sees(r(4), "MemoryCacheImpl", "FiniteSkip").cache().skip(1)),
        lambda: plain(sees(r(4), "EmptyTake").take(0)), lambda: plain(sees(r(4), "EmptySkip").skip(-1)),
        lambda: plain(sees(r(4), "ForeverRepeat[0]", "FiniteTake").repeat().take(3)), lambda: plain(sees(r(4), "EmptyRepeat").repeat(0)),
        lambda: plain(sees(r(4), "ParallelMap", "Prefetch").map(lambda v: v, num_parallel_calls=2).prefetch(1)),
        lambda: plain(sees(r(4), "Zip[0]").zip((sees(r(4), "Zip[0]"), sees(r(3), "Zip[1]")))),
        lambda: plain(r(3).flat_map(lambda v: sees(r(v), "Map", "FlatMap[0]").map(lambda v: v + 1)).take(0)),
        lambda: plain(r(3).flat_map(lambda v: sees(r(v + 1), "Batch").map(lambda v: v + 1))),
        lambda: plain(sees(r(9), "Shuffle", "Shard", "Window").shuffle(3, seed=1).shard(2, 0).window(2).flat_map(lambda window: window)),
    ])


def test_names_and_attrs_of_what_a_dataset_is_made_of(server):
    made_of = lambda dataset, *pairs: dataset.apply(testing.assert_prev(list(pairs)))
    parallel = lambda: Dataset.range(3).map(lambda v: v, num_parallel_calls=2, deterministic=True).batch(2)
    compare_datasets(server, [
        lambda: plain(made_of(parallel(), ("BatchDataset", {}), ("ParallelMapDataset", {"deterministic": "true"}), ("RangeDataset", {}))),
        lambda: plain(made_of(parallel(), ("BatchDataset", {}), ("ParallelMapDataset", {"deterministic": "false"}))),
        lambda: plain(made_of(parallel(), ("BatchDataset", {"none": "x"}))), lambda: plain(made_of(parallel(), ("Nothing", {}))),
        lambda: plain(made_of(Dataset.range(2), ("RangeDataset", {}), ("RangeDataset", {}))),
    ])


def test_rewrites_change_the_datasets_and_no_element(server):
    r = Dataset.range
    add = lambda v: v + 1
    square = lambda v: v * v
    even = lambda v: tf.equal(v % 2, 0)
    small = lambda v: v < 7
    fussy = lambda v: 12 // v > 2
    auto = tf.data.AUTOTUNE
    compare_datasets(server, [
        lambda: asking(sees(r(9), "FiniteTake").skip(0).repeat(1).take(-1).shard(1, 0).map(lambda v: v).take(4), noop_elimination=True),
        lambda: asking(sees(r(9), "FiniteSkip").skip(1).repeat(2), noop_elimination=True),
        lambda: asking(sees(r(9), "Map").map(lambda v: (v, v)), noop_elimination=True),
        lambda: asking(sees(r(4).map(lambda v: (v, v + 1)), "Map").map(lambda v, w: (w, v)), noop_elimination=True),
        lambda: asking(sees(r(9), "ShuffleAndRepeat").shuffle(3, seed=7).repeat(2).batch(18).map(tf.sort).unbatch(), shuffle_and_repeat_fusion=True),
        lambda: asking(sees(r(9), "ParallelMap").map(add), map_parallelization=True),
        lambda: asking(sees(r(9), "Map").map(add), map_parallelization=True, autotune=False),
        lambda: asking(sees(r(9), "Map").map(lambda v: v + tf.random.stateless_uniform([], [1, 2], 0, 1, tf.int64) * 0 + v), map_parallelization=False),
        lambda: asking(sees(r(9), "Map", "MemoryCacheImpl").map(add).map(square).map(lambda v: (v, v)).map(lambda v, w: v + w).cache(), map_fusion=True),
        lambda: asking(sees(r(9), "ParallelMap", "FiniteTake").map(add, auto).map(square, auto).take(5), map_fusion=True),
        lambda: asking(sees(r(9), "ParallelMap", "ParallelMap").map(add, 2).map(square, 2), map_fusion=True),
        lambda: asking(sees(r(20), "Filter", "FiniteTake").filter(even).filter(small).filter(lambda v: tf.constant(True)).take(9), filter_fusion=True),
        lambda: asking(sees(r(9), "Filter", "FiniteTake").filter(lambda v: v > 0).filter(fussy).take(9), filter_fusion=True),
        lambda: asking(sees(r(9), "Map", "Filter", "Map").map(add).filter(even), map_and_filter_fusion=True),
        lambda: asking(sees(r(9), "Map", "Filter", "Map").map(lambda v: (v, tf.as_string(v))).filter(lambda v, t: v < 5), map_and_filter_fusion=True),
        lambda: asking(sees(r(9), "MapAndBatch").map(square).batch(4), map_and_batch_fusion=True),
        lambda: asking(sees(r(9), "MapAndBatch").map(square, 3).batch(4, drop_remainder=True), map_and_batch_fusion=True),
        lambda: asking(sees(r(9), "ParallelFilter").filter(even), filter_parallelization=True),
        lambda: asking(sees(r(9), "ParallelFilter").filter(lambda v: tf.equal(v, 100)), filter_parallelization=True),
        lambda: asking(sees(r(9).batch(2), "Prefetch", "Root"), inject_prefetch=True),
        lambda: asking(sees(r(9).prefetch(2), "Root"), inject_prefetch=True),
        lambda: asking(sees(sees(r(4), "FiniteSkip").skip(0).apply(testing.non_serializable()), "FiniteTake").skip(0).take(2), noop_elimination=True),
        lambda: asking(sees(r(9), "ParallelMap", "MemoryCacheImpl").map(add, auto).map(add).map(square, auto).cache(), map_parallelization=True,
                       map_fusion=True),
        lambda: asking(sees(r(9), "ParallelMap", "FiniteTake").map(add, auto, deterministic=True).map(square, auto).take(5), map_fusion=True),
        lambda: asking(sees(r(9), "ParallelMap", "ParallelMap").map(add, auto, deterministic=True).map(square, auto, deterministic=False).batch(9)
                       .map(tf.sort).unbatch(), map_fusion=True),
        # Every element's error stays its own.
        lambda: asking(r(4).map(lambda v: 6 // (v - 1)).map(add), map_fusion=True), lambda: asking(r(4).filter(fussy), filter_parallelization=True),
    ])


def test_positions_in_rewritten_pipelines(server):
    """Half of a pass, the rest of it, and the rest again in a new pass that is put there."""
    r = Dataset.range
    for build in (
            lambda: asking(r(20).filter(lambda v: tf.equal(v % 3, 0)), filter_parallelization=True),
            lambda: asking(r(20).map(lambda v: v + 1).map(lambda v: v * v).filter(lambda v: v > 9).skip(0), map_parallelization=True, map_fusion=True,
                           map_and_filter_fusion=True, noop_elimination=True),
            lambda: asking(r(20).map(lambda v: v + 1).batch(2), map_and_batch_fusion=True, inject_prefetch=True)):
        with tf.Graph().as_default():
            iterator = data.make_initializable_iterator(build())
            element = iterator.get_next()
            saver = v1.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
            with v1.Session(server.target()) as session:
                session.run(iterator.initializer)
                drained(session, element, 3)
                path = saver.save(session, os.path.join(sys.argv[2], "position"))
                rest = drained(session, element)
                assert rest[1] == "OutOfRangeError" and rest[0], rest
                session.run(iterator.initializer)
                saver.restore(session, path)
                assert_same(rest, drained(session, element), "the rest of a pass")


def read_again(dataset, **policy):
    graph = raw.DatasetToGraphV2(input_dataset=dataset._variant_tensor, **policy)
    return dataset_ops._VariantDataset(raw.DatasetFromGraph(graph_def=graph), dataset.element_spec)


def test_pipelines_are_written_as_graphs_and_read_again(server):
    r = Dataset.range
    captured = lambda: tf.constant(5, tf.int64) * 2
    path = os.path.join(sys.argv[2], "lines")
    with open(path, "w") as file:
        file.write("a\nb\n")
    compare_datasets(server, [
        lambda: read_again(r(5)), lambda: read_again(r(5).map(lambda v: v + captured()).batch(2)),
        lambda: read_again((lambda c: r(5).map(lambda v: v + c).filter(lambda v: v > c))(captured())),
        lambda: read_again(Dataset.from_tensor_slices((["a", "b"], [1.5, 2.5])).repeat(2)),
        lambda: read_again(r(4).flat_map(lambda v: r(v).map(lambda w: v + w))),
        lambda: read_again(r(9).shuffle(4, seed=5).take(6)), lambda: read_again(read_again(r(3))),
        lambda: read_again(tf.data.TextLineDataset(path)), lambda: read_again(Dataset.zip((r(3), r(3, 6)))),
        lambda: read_again(Dataset.from_tensor_slices([r(3)._variant_tensor, r(2)._variant_tensor]).flat_map(
            lambda variant: dataset_ops._VariantDataset(variant, tf.TensorSpec([], tf.int64)))),
        lambda: read_again(r(3).map(lambda v: v + tf.random.uniform([], 0, 1, tf.int64)), external_state_policy=1),
    ])
    refused = lambda dataset, **policy: outcome_of(server, lambda: raw.DatasetToGraphV2(input_dataset=dataset()._variant_tensor, **policy))
    assert refused(lambda: r(3).map(lambda v: v + tf.random.uniform([], 0, 1, tf.int64)), external_state_policy=2) == "FailedPreconditionError"
    assert refused(lambda: r(3), external_state_policy=2) != "FailedPreconditionError"
    for graph in (b"", b"nothing", tf.Graph().as_graph_def().SerializeToString()):
        assert outcome_of(server, lambda: raw.DatasetCardinality(input_dataset=raw.DatasetFromGraph(graph_def=graph))) == "InvalidArgumentError"


def outcome_of(server, build):
    """The value, or the name of the error's class."""
    with tf.Graph().as_default():
        fetch = build()
        with v1.Session(server.target()) as session:
            try:
                return session.run(fetch)
            except tf.errors.OpError as error:
                return type(error).__name__


def test_fingerprints(server):
    r = Dataset.range
    of = lambda build: outcome_of(server, lambda: build().fingerprint())
    builds = [lambda: r(10), lambda: r(11), lambda: r(10).map(lambda v: v + 1), lambda: r(10).map(lambda v: v + 2), lambda: r(10).map(lambda v: v * 2),
              lambda: r(10).flat_map(r), lambda: r(10).flat_map(lambda v: r(v + 1)), lambda: r(10).filter(lambda v: v > 1),
              lambda: tf.data.TFRecordDataset(["a", "b"]), lambda: tf.data.TFRecordDataset(["a", "c"]), lambda: r(10).repeat(2), lambda: r(10).skip(2)]
    prints = [of(build) for build in builds]
    assert all(isinstance(each, int) or hasattr(each, "dtype") for each in prints), prints
    assert len(set(map(int, prints))) == len(prints), prints
    assert [of(build) for build in builds] == prints


def test_batch_sizes(server):
    r = Dataset.range
    builds = [lambda: r(9), lambda: r(9).batch(4), lambda: r(9).batch(4, drop_remainder=True).take(2).repeat(3).prefetch(1).cache().shuffle(3),
              lambda: r(9).batch(3).map(lambda v: v), lambda: Dataset.zip((r(9).batch(3), r(8).batch(3))), lambda: Dataset.zip((r(9).batch(3), r(8).batch(2))),
              lambda: r(9).batch(2).concatenate(r(3).batch(2)), lambda: r(9).apply(tf.data.experimental.map_and_batch(lambda v: v, 5)),
              lambda: r(9).map(lambda v: tf.fill([v], v)).padded_batch(4, [None]), lambda: plain(r(9).batch(7)), lambda: r(9).batch(2).unbatch(),
              lambda: r(9).batch(6).filter(lambda v: True).skip(1).shard(2, 1)]
    found = [int(outcome_of(server, lambda: raw.ComputeBatchSize(input_dataset=build()._variant_tensor))) for build in builds]
    with tf.Graph().as_default(), v1.Session() as session:
        expected = [int(session.run(raw.ComputeBatchSize(input_dataset=build()._variant_tensor))) for build in builds]
    assert found == expected, (found, expected)


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
