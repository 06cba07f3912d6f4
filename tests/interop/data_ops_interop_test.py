"""Ops around datasets on `weir serve`, as in TensorFlow's own session: files and their names, batches cut anew, grouped and generated elements, orders,
tables filled from datasets, records written; and positions that are saved and restored.

usage: data_ops_interop_test.py WEIR EMPTY_DIRECTORY
"""
import os
import sys
import threading

from two_sessions import numbers, outcome

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import batching, grouping, matching_files
from tensorflow.core.framework import dataset_options_pb2
from tensorflow.python.data.experimental.ops import map_defun
from tensorflow.python.data.ops import dataset_ops, from_generator_op, structured_function
from tensorflow.python.ops import data_flow_ops

import cases
from data_interop_test import assert_same, compare_datasets, drained, flat
from weir_server import WeirServers

v1 = tf.compat.v1
data = v1.data
Dataset = data.Dataset
raw = tf.raw_ops
v1.disable_eager_execution()


def made(variant, *specs):
    """The dataset that an op of tf.raw_ops gives."""
    spec = specs if len(specs) > 1 else specs[0]
    return dataset_ops._VariantDataset(variant, spec)


def int64(*shape):
    return tf.TensorSpec(shape, tf.int64)


def over(op, dataset, *specs, **inputs):
    spec = specs or (dataset.element_spec,)
    flat = tf.nest.flatten(spec)
    return made(op(input_dataset=dataset._variant_tensor, output_types=[s.dtype for s in flat], output_shapes=[s.shape for s in flat], **inputs), *spec)


def compare_values(server, build):
    """`build()` gives fetches, each of which is run by itself."""
    results = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            fetches = build()
            with v1.Session(target) as session:
                results.append([outcome(session, fetch) for fetch in fetches])
    for i, (expected, found) in enumerate(zip(*results)):
        if isinstance(expected, str) or isinstance(found, str):
            assert isinstance(expected, str) and isinstance(found, str) and expected == found, (i, expected, found)
        else:
            np.testing.assert_array_equal(found, expected, err_msg="value %d" % i)
    return results[1]


def tree():
    folder = os.path.join(sys.argv[2], "tree")
    for path in ("b/x.txt", "a/x.txt", "a/y.py", "a-b", "c/d/e.txt", ".h/x.txt", "z", "n[1].txt"):
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        open(os.path.join(folder, path), "w").close()
    return folder


def test_names_of_files(server):
    folder = tree()
    patterns = ["*", "*/*", "**/x.txt", "a", "a/../z", "n\\[1].txt", "a/", "*/", "[ab]/x.txt", "a-[!x]", "a-?", "none/*", "z/*", "?*/*/*"]
    compare_values(server, lambda: [raw.MatchingFiles(pattern=os.path.join(folder, p)) for p in patterns] + [
        raw.ShardedFilespec(basename="/a/model", num_shards=n) for n in (0, 3, 123456)] + [
        raw.MatchingFiles(pattern=[folder + "/z", folder + "/a*"]), raw.MatchingFiles(pattern=""), raw.MatchingFiles(pattern=folder + "//a/*")])
    compare_datasets(server, [
        lambda: matching_files.MatchingFilesDataset([folder + "/*"]),
        lambda: matching_files.MatchingFilesDataset([folder + "/z", folder + "/a*"]),
        lambda: matching_files.MatchingFilesDataset([folder + "/*/*.txt", folder + "/none*", folder + "/*/*/*"]),
        lambda: matching_files.MatchingFilesDataset([folder + "/none/*"]), lambda: matching_files.MatchingFilesDataset([folder + "/z*z"]),
        lambda: Dataset.list_files(folder + "/*/x.txt", shuffle=False), lambda: Dataset.list_files(folder + "/*", seed=3),
        lambda: Dataset.list_files(folder + "/none*"),
    ])


def test_whole_files(server):
    folder = os.path.join(sys.argv[2], "whole")

    def build():
        path = os.path.join(folder, "new/file")
        write = raw.WriteFile(filename=path, contents=b"a\0b")
        with tf.control_dependencies([write]):
            read = raw.ReadFile(filename=path)
        unknown = lambda value: v1.placeholder_with_default(value, None)
        return [read, raw.ReadFile(filename=folder), raw.ReadFile(filename=folder + "/none"), raw.ReadFile(filename=unknown([path])),
                raw.WriteFile(filename=folder, contents="x"), raw.WriteFile(filename=unknown([path]), contents="x")]
    assert compare_values(server, build)[0] == b"a\0b"


def test_batches_cut_anew(server):
    r = Dataset.range
    first = lambda: r(7).map(lambda v: tf.fill([v % 3 + 1], v))
    part = lambda dataset, n: over(raw.RebatchDataset, dataset, int64(None), num_replicas=n)
    sizes = lambda dataset, n, drop=False: over(raw.RebatchDatasetV2, dataset, int64(None), batch_sizes=n, drop_remainder=drop)
    compare_datasets(server, [
        lambda: part(r(7).batch(5), 3), lambda: part(r(2).batch(2), 5), lambda: part(r(4), 2), lambda: part(r(0).batch(2), 2), lambda: part(r(4).batch(4), 0),
        lambda: sizes(r(7).batch(3), [2, 0, 1]), lambda: sizes(r(7).batch(3), [4], True), lambda: sizes(r(7).batch(3), [4]), lambda: sizes(r(3), [2]),
        lambda: sizes(r(10).batch(2), [5]), lambda: sizes(r(0).batch(2), [1]), lambda: sizes(r(9).batch(4), [1, 7]),
        lambda: first().apply(batching.dense_to_sparse_batch(3, [4])), lambda: first().apply(batching.dense_to_sparse_batch(2, [None])),
        lambda: first().apply(batching.dense_to_sparse_batch(2, [2])), lambda: first().apply(batching.dense_to_sparse_batch(2, [2, 2])),
        lambda: r(5).apply(batching.dense_to_sparse_batch(2, [])), lambda: r(5).apply(batching.dense_to_sparse_batch(0, [])),
    ])


def sliding(dataset, size, shift=1, stride=1, drop=True):
    return over(raw.SlidingWindowDataset, dataset, int64(None), window_size=size, window_shift=shift, window_stride=stride, drop_remainder=drop)


def test_sliding_windows(server):
    r = Dataset.range
    old = lambda n, size, shift, stride: over(raw.ExperimentalSlidingWindowDataset, r(n), int64(None), window_size=size, window_shift=shift,
                                              window_stride=stride)
    pairs = lambda: over(raw.SlidingWindowDataset, Dataset.zip((r(5), r(5).map(lambda v: tf.fill([2], tf.as_string(v))))), int64(None),
                         tf.TensorSpec([None, 2], tf.string), window_size=3, window_shift=2, window_stride=1)
    shapes = (3, 1, 1), (3, 2, 1), (2, 3, 2), (3, 4, 1), (2, 5, 1), (3, 1, 3), (3, 2, 2), (1, 1, 1), (2, 2, 5), (3, 9, 1), (2, 7, 3), (9, 1, 1)
    compare_datasets(server, [lambda n=n, shape=shape, drop=drop: sliding(r(n), *shape, drop) for n in (0, 2, 7, 10) for shape in shapes
                              for drop in (True, False)] + [lambda shape=shape: old(7, *shape) for shape in shapes] + [
        pairs, lambda: sliding(r(5), 0), lambda: sliding(r(5), 2, 0), lambda: sliding(r(5), 2, 1, -1), lambda: sliding(r(5), 2, 2**62, 1, False),
        lambda: sliding(r(5), 3, 1, 2**63 - 1, False), lambda: sliding(r(5).map(lambda v: tf.cast(v, tf.int32)), 2),
        lambda: sliding(r(5).repeat(), 3, 2).take(4), lambda: sliding(sliding(r(9), 3), 2),
        lambda: over(raw.SlidingWindowDataset, r(6).map(lambda v: tf.fill([v // 3 + 1], v)), int64(None, None), window_size=2, window_shift=1,
                     window_stride=1)])


def test_orders(server):
    r = Dataset.range
    repeat = lambda n, size, count, again, seed=5: over(raw.ShuffleAndRepeatDataset, r(n), buffer_size=size, seed=seed, seed2=11, count=count,
                                                        reshuffle_each_iteration=again)
    compare_datasets(server, [lambda a=a, again=again: repeat(*a, again) for again in (True, False) for a in (
        (6, 3, 3), (6, 10, 3), (4, 2, -1), (0, 2, -1), (5, 7, 1), (5, 0, 1), (5, 2, 0), (5, 2, -2), (1, 1, 4))])
    key, counter = np.array([3], np.uint64), np.array([4, 5], np.uint64)
    shuffled = lambda value, alg=1: raw.StatelessShuffle(value=value, key=key, counter=counter, alg=alg)
    place = lambda index, limit, seed=(1, 2, 3), **more: raw.RandomIndexShuffle(index=index, seed=np.array(seed, np.uint32), max_index=limit, **more)
    compare_values(server, lambda: [shuffled(np.arange(n)) for n in (0, 1, 2, 5, 10, 1000)] + [
        shuffled(np.arange(12).reshape(6, 2)), shuffled(np.array(["a", "b", "c"])), shuffled(np.arange(5), 3), shuffled(np.arange(5), 9),
        place(np.arange(10), np.int64(9)), place(np.int32(3), np.int32(7)), place(np.arange(1000, dtype=np.uint32), np.uint32(70000), rounds=8),
        place(np.int64([0, 1]), np.int64([9, 8])), place(np.int64(5), np.int64(2**62)), place(np.int64([0, 2**40]), np.int64(2**45)),
        place(np.int64([0, 1, 2]), np.int64(5), [[1, 2, 3], [4, 5, 6], [7, 8, 9]]), place(np.int64(0), np.int64(0)),
        place(np.int64(11), np.int64(9)), place(np.int64(-1), np.int64(9)), place(np.int64(0), np.int64(-3))])


def test_grouped_and_generated_elements(server):
    r = Dataset.range
    mean = grouping.Reducer(init_func=lambda _: (np.int64(0), np.int64(0)), reduce_func=lambda state, v: (state[0] + v, state[1] + 1),
                            finalize_func=lambda total, count: total / count)
    joined = grouping.Reducer(lambda key: tf.as_string(key), lambda state, v: state + ":" + tf.as_string(v), lambda state: state)
    fails = grouping.Reducer(lambda _: np.int64(0), lambda state, v: state + v, lambda state: 6 // (state - 4))
    odd = lambda v: v % 3
    batch = lambda dataset, f, *more: over_function(raw.MapAndBatchDataset, dataset, f, *more)
    failing = lambda v: tf.cast(tf.debugging.check_numerics(1.0 / tf.cast(v - 4, tf.float32), "four"), tf.int64) + v
    compare_datasets(server, [
        lambda: r(10).apply(grouping.group_by_reducer(odd, mean)), lambda: r(10).apply(grouping.group_by_reducer(odd, joined)),
        lambda: r(0).apply(grouping.group_by_reducer(odd, joined)), lambda: r(5).apply(grouping.group_by_reducer(odd, fails)),
        lambda: batch(r(10), lambda v: v * v, 3, 2, False), lambda: batch(r(10), lambda v: v * v, 3, -1, True), lambda: batch(r(0), lambda v: v, 3, 1, False),
        lambda: batch(r(10), failing, 3, 1, False), lambda: batch(r(10), lambda v: v, 0, 1, False), lambda: batch(r(10), lambda v: v, 3, 0, False),
        lambda: batch(r(5), lambda v: tf.fill([v], v), 2, 1, False),
        lambda: generated(4), lambda: generated(0), lambda: generated(3).repeat(2), lambda: generated(100).take(2),
        lambda: made(raw.ListDataset(tensors=[np.int64(1), np.int64(2), np.int64(3)], output_types=[tf.int64], output_shapes=[[]]), int64()),
        lambda: Dataset.from_tensors(0).flat_map(lambda _: tf.data.experimental.from_list([(1, "a"), (2, "b")])),
        lambda: over(raw.SleepDataset, r(3), sleep_microseconds=100), lambda: over(raw.SleepDataset, r(3), sleep_microseconds=-1),
    ])


def unless(k):
    """Gives its argument, and an error for k."""
    return lambda v: v + tf.cast(tf.debugging.check_numerics(1.0 / tf.cast(v - k, tf.float32), "no"), tf.int64) * 0


def test_elements_behind_errors(server):
    r = Dataset.range
    batch = lambda dataset, *more: over_function(raw.MapAndBatchDataset, dataset, lambda v: v * 10, *more)
    tens = lambda x: r(4).map(lambda y: unless(1)(10 * x + y))
    parallel = lambda dataset, f, cycle=2, block=1: dataset.interleave(f, cycle_length=cycle, block_length=block, num_parallel_calls=min(cycle, 2))
    three = lambda x: r(10 * x, 10 * x + 3)
    grouped = lambda k: r(8).group_by_window(
        lambda v: np.int64(0), lambda key, w: w.batch(8 + 0 * unless(k)(w.reduce(np.int64(0), lambda s, v: s + v))), window_size=2)
    compare_datasets(server, [lambda build=build: build().ignore_errors() for build in (
        lambda: r(5).map(unless(1)).skip(2), lambda: r(9).map(unless(1)).map(unless(4)).skip(3),
        lambda: batch(r(12).map(unless(1)), 4, 2, False), lambda: batch(r(11).map(unless(9)), 4, 1, False), lambda: batch(r(12).map(unless(1)), 4, 2, True),
        lambda: batch(r(3).map(unless(1)), 4, 2, False), lambda: batch(r(12).map(unless(1)).map(unless(2)), 4, 2, False),
        lambda: parallel(r(2), tens), lambda: parallel(r(3), tens, 2, 2), lambda: parallel(r(2), tens, 1, 3), lambda: r(2).interleave(tens, cycle_length=2),
        lambda: parallel(r(4), lambda x: three(unless(1)(x))), lambda: parallel(r(4), lambda x: three(unless(0)(x)), 2, 2),
        lambda: parallel(r(4), lambda x: three(unless(3)(x)), 3, 1), lambda: parallel(r(4).map(unless(1)), three), lambda: parallel(r(4).map(unless(3)), three),
        lambda: grouped(1), lambda: grouped(5))] + [
            lambda k=k, shape=shape, drop=drop: sliding(r(9).map(unless(k)), *shape, drop).ignore_errors() for k in range(9)
            for shape in ((3, 2), (2, 4), (2, 3), (2, 1, 3)) for drop in (True, False)])


def test_cardinalities(server):
    r = Dataset.range
    experimental = data.experimental
    some, endless = lambda: r(5).filter(lambda v: v > 1), lambda: r(5).repeat()
    again = lambda dataset: over(raw.ShuffleAndRepeatDataset, dataset, buffer_size=2, seed=1, seed2=2, count=-1, reshuffle_each_iteration=True)
    chosen = lambda datasets, selector, **more: experimental.choose_from_datasets(datasets, selector, **more)
    windows = lambda dataset: dataset.group_by_window(lambda v: v % 2, lambda k, w: w, window_size=2)
    one = lambda v: Dataset.from_tensors(v)
    compare_values(server, lambda: [raw.DatasetCardinality(input_dataset=d._variant_tensor) for d in (
        some().repeat(), some().repeat(2), again(some()), again(r(5)), r(0).repeat(), endless().batch(2).unbatch(), some().batch(2).unbatch(),
        r(0).batch(2).unbatch(), r(0).batch(2, drop_remainder=True).unbatch(), r(5).batch(2, drop_remainder=True).unbatch(), r(5).batch(2).unbatch(),
        Dataset.zip((r(8).batch(4), Dataset.from_tensor_slices(np.zeros([2, 4])))).unbatch(),
        endless().ignore_errors(), r(0).ignore_errors(), r(3).ignore_errors(), endless().skip(-1), some().skip(-1), r(3).skip(-1), r(3).skip(5), some().take(0),
        some().take(-1), endless().take(-1), endless().take(0), r(0).flat_map(one), r(0).interleave(one), r(0).interleave(one, num_parallel_calls=2),
        endless().flat_map(one), windows(r(0)), windows(endless()), windows(r(3)), chosen([endless(), r(3)], r(2)), chosen([endless(), endless()], r(2).repeat()),
        chosen([r(3), endless()], r(2), stop_on_empty_dataset=True), chosen([some(), endless()], r(2)), chosen([r(3), r(4)], r(2).repeat()),
        chosen([r(3), r(4)], r(2)), tf.data.TFRecordDataset([]), tf.data.TextLineDataset([]), tf.data.FixedLengthRecordDataset([], 4))])


def over_function(op, dataset, f, size, calls, drop):
    wrapped = structured_function.StructuredFunctionWrapper(f, "test", dataset=dataset)
    spec = tf.TensorSpec([None] + wrapped.output_structure.shape.as_list(), wrapped.output_structure.dtype)
    return made(op(input_dataset=dataset._variant_tensor, other_arguments=wrapped.function.captured_inputs, batch_size=np.int64(size),
                   num_parallel_calls=np.int64(calls), drop_remainder=drop, f=wrapped.function, output_types=[spec.dtype],
                   output_shapes=[spec.shape if not drop else [size]]), spec)


def generated(count):
    """Numbers below `count`. How many there were is in a table, which the last function sets back."""
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, np.int64(0))
    key = np.int64(7)

    def next_of(limit):
        index = table.lookup(tf.constant(key))
        with tf.control_dependencies([table.insert(tf.constant(key), index + 1)]):
            return raw.GetElementAtIndex(dataset=Dataset.range(limit)._variant_tensor, index=tf.identity(index), output_types=[tf.int64],
                                         output_shapes=[[]])[0]

    def set_back(limit):
        with tf.control_dependencies([table.insert(tf.constant(key), tf.constant(np.int64(0)))]):
            return tf.identity(limit)

    return from_generator_op._GeneratorDataset(np.int64(count), lambda limit: limit, next_of, set_back, tf.TensorSpec([], tf.int64))


def compressed(*tensors):
    return raw.UncompressElement(compressed=raw.CompressElement(components=list(tensors)), output_types=[t.dtype for t in tensors],
                                 output_shapes=[t.shape for t in tensors])


def test_compressed_elements(server):
    r = Dataset.range
    of = lambda dtype, *shape: tf.constant(np.arange(int(np.prod(shape))).reshape(shape) % 2, dtype)
    unknown = lambda value: v1.placeholder_with_default(value, None)

    def build():
        one = raw.CompressElement(components=[tf.constant([1, 2]), tf.constant("a")])
        give = lambda types, shapes: raw.UncompressElement(compressed=one, output_types=types, output_shapes=shapes)
        tensors = [of(t, 3, 2) for t in (tf.float32, tf.int8, tf.bool, tf.complex64, tf.half, tf.bfloat16, tf.uint64)]
        texts = [tf.constant([["a", ""], ["b\0c", "d" * 70000]]), tf.constant("\u30a2"), tf.constant([], tf.string)]
        return (compressed(*tensors, *texts) + compressed(tf.zeros([0, 5]), tf.constant(7)) + compressed(tf.zeros([1000, 1000])) +
                [give([tf.int32], [[2]]), give([tf.int32, tf.int32], [[2], []]), give([tf.int32, tf.string], [None, []])[0],
                 raw.UncompressElement(compressed=r(3)._variant_tensor, output_types=[tf.int64], output_shapes=[[]])])
    compare_values(server, build)
    sparse = lambda v: tf.SparseTensor([[v, 0], [v, 2]], [v, v + 1], [9, 3])
    through = lambda v: compressed(v, tf.as_string(v))
    # A dataset of datasets goes through too, and what is compressed waits in buffers.
    nested = lambda v: compressed(r(v)._variant_tensor)[0]
    compare_datasets(server, [
        lambda: r(5).map(through), lambda: r(5).batch(2).map(through).unbatch(), lambda: r(3).map(lambda v: tf.sparse.to_dense(sparse(v))),
        lambda: r(7).map(lambda v: raw.CompressElement(components=[v, v * v])).prefetch(3).cache().map(
            lambda v: raw.UncompressElement(compressed=v, output_types=[tf.int64] * 2, output_shapes=[[], []])),
    ])


def test_shards_of_workers(server):
    r = Dataset.range
    shard = lambda dataset, n, i, policy=0: over(raw.AutoShardDataset, dataset, num_workers=np.int64(n), index=np.int64(i), auto_shard_policy=policy)
    compare_datasets(server, [lambda n=n, a=a: shard(r(n), *a) for n, a in (
        (7, (3, 0)), (7, (3, 2)), (7, (3, 1, -1)), (2, (5, 4, 2)), (7, (1, 0, 2)), (7, (0, 0)), (7, (3, 3)), (7, (3, -1)))] + [
        lambda: shard(r(7).map(lambda v: v * v).batch(2).unbatch(), 2, 1, 2)])


def test_flat_maps_with_places(server):
    r = Dataset.range

    def places(dataset, map_func, index_func, cardinality=-2, spec=int64()):
        mapped = structured_function.StructuredFunctionWrapper(map_func, "test", dataset=dataset).function
        index = structured_function.StructuredFunctionWrapper(index_func, "test", input_structure=int64()).function
        return made(raw.IndexFlatMapDataset(
            input_dataset=dataset._variant_tensor, map_func_other_args=mapped.captured_inputs, index_map_func_other_args=index.captured_inputs,
            output_cardinality=np.int64(cardinality), map_func=mapped, index_map_func=index, output_types=[spec.dtype], output_shapes=[spec.shape]), spec)
    pair = lambda v: tf.stack([v * 10, v * 10 + 1])
    halves = lambda i: (i // 2, i % 2)
    shifted = lambda shift: places(r(3), lambda v: pair(v + shift), halves, 6)
    weighted = lambda datasets, weights: made(raw.WeightedFlatMapDataset(
        input_datasets=[d._variant_tensor for d in datasets], weights=weights, output_types=[tf.int64], output_shapes=[[]]), int64())
    compare_datasets(server, [
        lambda: places(r(4), pair, halves), lambda: places(r(0), pair, halves), lambda: places(r(3), lambda v: v, lambda i: (i, i * 0)),
        lambda: places(r(3), lambda v: tf.fill([2, 3], v), halves, spec=int64(3)), lambda: places(r(3), pair, lambda i: (i // 2, i * 0 + 7)),
        lambda: places(r(3), pair, lambda i: "a"), lambda: places(r(3), pair, lambda i: (tf.cast(i // 2, tf.int32), tf.cast(i % 2, tf.int32))),
        lambda: places(r(3), pair, lambda i: (tf.cast(i // 2, tf.uint64), tf.cast(i % 2, tf.uint32))),
        lambda: shifted(tf.constant(np.int64(100))).take(4), lambda: places(r(3), pair, halves).repeat(2),
        lambda: weighted([r(10), r(100, 110)], [0.5, 0.5]), lambda: weighted([r(100), r(100, 200), r(200, 210)], [0.2, 0.3, 0.5]),
        lambda: weighted([r(3), r(0)], [0.5, 0.5]), lambda: weighted([r(3), r(5)], [0.5, 0.0]), lambda: weighted([r(3), r(5)], [0.5, -1.0]),
        lambda: weighted([r(3), r(5).repeat()], [0.5, 0.5]), lambda: weighted([r(3), r(5).filter(lambda v: v > 1)], [0.5, 0.5]),
        lambda: weighted([r(3), r(5)], [0.5, 0.2, 0.3]),
    ])
    at = lambda dataset, i: raw.GetElementAtIndex(dataset=dataset._variant_tensor, index=np.int64(i), output_types=[tf.int64], output_shapes=[[]])[0]
    compare_values(server, lambda: [raw.DatasetCardinality(input_dataset=d._variant_tensor) for d in (
        places(r(3), pair, halves, 6), weighted([r(100), r(100, 200), r(200, 210)], [0.2, 0.3, 0.5]))])
    with tf.Graph().as_default(), v1.Session(server.target()) as session:
        dataset = places(r(3), pair, halves, 6)
        shuffled = weighted([r(4), r(10, 16)], [0.4, 0.6])
        assert session.run([at(dataset, i) for i in (5, 0, 3)]) == [21, 0, 11]
        assert session.run([at(shuffled, i) for i in (0, 2, 5)]) == [0, 10, 13]


def test_elements_of_caches(server):
    at = lambda dataset, i: raw.GetElementAtIndex(dataset=dataset._variant_tensor, index=np.int64(i), output_types=[tf.int64], output_shapes=[[]])[0]
    cache = lambda: Dataset.range(7).filter(lambda v: tf.not_equal(v % 3, 1)).cache()
    compare_values(server, lambda: [at(cache(), i) for i in (3, 0, 4, 5, -1)] + [
        at(Dataset.range(5).shuffle(1).cache(), 3), at(Dataset.range(5).cache(), 5), at(Dataset.range(5).repeat().cache(), 7), at(cache().skip(1), 0)])


def written_examples():
    feature = lambda **values: tf.train.Feature(**{kind: getattr(tf.train, {"int64_list": "Int64List", "float_list": "FloatList", "bytes_list": "BytesList"}[kind])(
        value=value) for kind, value in values.items()})
    examples = []
    for i in range(6):
        features = {"age": feature(int64_list=[i]), "weights": feature(float_list=[i / 2] * (i % 3)), "pair": feature(float_list=[i, -i])}
        if i % 2 == 0:
            features["names"] = feature(bytes_list=[b"n%d" % k for k in range(i)])
        examples.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return examples


def test_examples_of_datasets(server):
    parse = tf.data.experimental.parse_example_dataset
    io = tf.io
    all_kinds = {"age": io.FixedLenFeature([], tf.int64), "names": io.VarLenFeature(tf.string), "weights": io.RaggedFeature(tf.float32),
                 "more": io.FixedLenSequenceFeature([], tf.float32, allow_missing=True), "pair": io.FixedLenFeature([2], tf.float32), "b": io.RaggedFeature(tf.int64)}
    batches = lambda n: Dataset.from_tensor_slices(written_examples()).batch(n)
    # Ragged tensors as their parts, which can be compared.
    parts = lambda v: {key: (t.values, t.row_splits) if isinstance(t, tf.RaggedTensor) else t for key, t in v.items()}
    broken = lambda: Dataset.from_tensor_slices([b"abc", written_examples()[0]]).batch(1)
    compare_datasets(server, [
        lambda: batches(2).apply(parse(all_kinds)).map(parts), lambda: batches(4).apply(parse(all_kinds, num_parallel_calls=3)).prefetch(2).map(parts),
        lambda: batches(3).apply(parse({"names": io.FixedLenFeature([], tf.string, default_value="none")})),
        lambda: batches(1).apply(parse({"names": io.FixedLenFeature([], tf.string, default_value="none")})),
        lambda: batches(2).apply(parse({"none": io.FixedLenFeature([], tf.int64)})), lambda: batches(2).apply(parse({"age": io.FixedLenFeature([], tf.float32)})),
        lambda: batches(2).apply(parse({"x": io.SparseFeature("age", "pair", tf.float32, 10)})),
        lambda: broken().apply(parse({"age": io.FixedLenFeature([], tf.int64)})), lambda: batches(2).apply(parse(all_kinds, num_parallel_calls=0)),
        lambda: Dataset.from_tensors(np.array([], dtype=object)).map(lambda v: tf.zeros([0], tf.string)).apply(parse(all_kinds)).map(parts),
        lambda: batches(2).apply(parse(all_kinds)).map(lambda v: (v["age"], tf.sparse.to_dense(v["names"]), v["weights"].to_tensor())),
    ])


def test_wrapped_datasets_and_options(server):
    r = Dataset.range
    wrapped = lambda dataset: made(raw.UnwrapDatasetVariant(input_handle=raw.WrapDatasetVariant(input_handle=dataset._variant_tensor)), int64())
    compare_datasets(server, [lambda: wrapped(r(3)), lambda: made(raw.UnwrapDatasetVariant(input_handle=r(2)._variant_tensor), int64()),
                              lambda: made(raw.WrapDatasetVariant(input_handle=r(2)._variant_tensor), int64())])

    def options(**values):
        all_options = tf.data.Options()
        all_options.deterministic = values.get("deterministic", False)
        all_options.threading.private_threadpool_size = values.get("threads", 3)
        return all_options

    def build():
        one = r(3).with_options(options(deterministic=True))
        two = r(3).with_options(options(threads=7))
        return [raw.GetOptions(input_dataset=d._variant_tensor) for d in (r(3), one, one.map(lambda v: v).batch(2), Dataset.zip((one, two)), two.concatenate(one))]
    results = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            with v1.Session(target) as session:
                results.append([dataset_options_pb2.Options.FromString(value) for value in session.run(build())])
    assert results[0] == results[1], results


def test_rows_mapped_by_a_function(server):
    def defun(f, *specs):
        return tf.function(f, input_signature=specs)

    def build():
        square = defun(lambda v: (v * v, tf.fill([2], v)), int64())
        fails = defun(lambda v: 6 // v, int64())
        shapes = defun(lambda v: tf.fill([v], v), int64())
        captured = tf.constant(np.int64(10))
        plus = defun(lambda v: v + captured, int64())
        call = lambda f, value, types, shapes: map_defun.map_defun(f, [value], types, shapes)
        return [*call(square, np.arange(5), [tf.int64, tf.int64], [[], [2]]), *call(square, np.zeros([0], np.int64), [tf.int64, tf.int64], [[], [2]]),
                *call(fails, np.arange(3), [tf.int64], [[]]), *call(shapes, np.int64([1, 1]), [tf.int64], [[None]]),
                *call(shapes, np.int64([1, 2]), [tf.int64], [[None]]), *call(plus, np.arange(40), [tf.int64], [[]])]
    compare_values(server, build)


def test_tables_and_records_of_datasets(server):
    r = Dataset.range
    pairs = lambda n: r(n).map(lambda v: (tf.as_string(v), v * 10))

    def build(dataset):
        def fetches():
            table = tf.lookup.StaticHashTable(tf.data.experimental.DatasetInitializer(dataset()), -1)
            with tf.control_dependencies([table._initialize() if table._initializer is None else table._initializer.initialize(table)]):
                return [table.lookup(tf.constant(["0", "3", "x"])), table.size()]
        return fetches
    for dataset in (lambda: pairs(5), lambda: pairs(5).repeat(2), lambda: pairs(4).concatenate(pairs(4).map(lambda k, v: (k, v + 1)))):
        compare_values(server, build(dataset))
    paths = [os.path.join(sys.argv[2], "written%d" % i) for i in range(3)]

    def records():
        texts = r(3).map(tf.as_string)
        ops = [raw.DatasetToTFRecord(input_dataset=texts._variant_tensor, filename=path, compression_type=compression)
               for path, compression in zip(paths, ("", "GZIP", "ZLIB"))]
        with tf.control_dependencies(ops):
            done = tf.constant(1)
        bad = lambda dataset: raw.DatasetToTFRecord(input_dataset=dataset._variant_tensor, filename=paths[0], compression_type="")
        return [done, bad(r(3)), bad(Dataset.zip((texts, texts)))]
    compare_values(server, records)
    compare_datasets(server, [lambda p=p, c=c: data.TFRecordDataset(p, c) for p, c in zip(paths[1:], ("GZIP", "ZLIB"))])


CSV = {
    "plain": "a,b,c\n1,2.5,x\n-3,,y\n", "carriage": "a,b,c\r\n1,2,x\r3,4,y\n", "quoted": 'a,b,c\n1,2,"x, ""y""\nz"\n"4",5,""\n',
    "broken": 'a,b,c\n1,2,x"y\n1,2,"x"y\n7,8,"z"\nq,8,z\n1,2\n1,2,3,4\n\n5,6,z', "open": 'a,b,c\n1,2,x\n3,4,"never closed\n', "empty": "",
    "header": "a,b,c", "missing": "a,b,c\n,2,x\n1,NA,x\n2,3,NA\n",
}


def test_comma_separated_values(server):
    paths = {}
    for name, content in CSV.items():
        paths[name] = os.path.join(sys.argv[2], name + ".csv")
        with open(paths[name], "w", newline="") as file:
            file.write(content)
    paths["none"] = os.path.join(sys.argv[2], "none.csv")
    defaults = [tf.int64, [1.5], ["d"]]
    csv = lambda name, columns=defaults, **more: tf.data.experimental.CsvDataset(paths[name], columns, header=True, **more)
    compare_datasets(server, [lambda name=name: csv(name) for name in paths] + [
        lambda: csv("quoted", use_quote_delim=False), lambda: csv("missing", na_value="NA"), lambda: csv("plain", [tf.string, tf.int64], select_cols=[2, 0]),
        lambda: csv("plain", [tf.int64, tf.string], select_cols=[0, 2]), lambda: csv("plain", [tf.float32], exclude_cols=[0, 2]),
        lambda: csv("plain", [tf.string] * 2), lambda: csv("plain", [tf.string] * 4), lambda: csv("plain", field_delim=";"),
        lambda: csv("plain", [tf.string], field_delim=";"), lambda: csv("quoted", buffer_size=2), lambda: csv("plain", [tf.int32, tf.float64, tf.string]),
        lambda: tf.data.experimental.CsvDataset([paths["plain"], paths["quoted"]], [tf.string] * 3),
    ])


def test_saved_datasets(server):
    """What one has saved, the other loads."""
    folder = lambda name: os.path.join(sys.argv[2], "saved-" + name)
    rows = lambda: Dataset.range(7).map(lambda v: (v, tf.as_string(v), tf.fill([v % 3], 0.5)))
    by_parity = lambda v, *_: v % 2
    in_turn = lambda shards: shards.flat_map(lambda shard: shard)
    for name, target in (("theirs", ""), ("ours", server.target())):
        with tf.Graph().as_default():
            with v1.Session(target) as session:
                session.run([rows().save(folder(name)), rows().save(folder(name + "-zipped"), compression="GZIP"),
                             rows().save(folder(name + "-sharded"), shard_func=by_parity)])
                for bad in (lambda v, *_: tf.cast(v, tf.float32),):
                    try:
                        session.run(rows().save(folder(name + "-bad"), shard_func=bad))
                        raise AssertionError("no shard is named")
                    except (tf.errors.InvalidArgumentError, TypeError, ValueError):
                        pass
    def load(name, **more):
        return lambda: Dataset.load(folder(name), **more)
    spec = lambda: rows().element_spec
    compare_datasets(server, [load(name + more, **options) for name in ("theirs", "ours") for more, options in (
        ("", {}), ("-zipped", {"compression": "GZIP"}), ("-sharded", {}), ("-sharded", {"reader_func": in_turn}), ("-zipped", {}))])
    compare_values(server, lambda: [raw.DatasetCardinality(input_dataset=Dataset.load(folder(name))._variant_tensor) for name in ("theirs", "ours")])
    for damage in (lambda content: content[:-1], lambda content: b"\x12\x03../" + content, lambda content: b"\xff" * 9):
        path = os.path.join(folder("ours"), "snapshot.metadata")
        content = open(path, "rb").read()
        with open(path, "wb") as file:
            file.write(damage(content))
        with tf.Graph().as_default():
            element = data.make_one_shot_iterator(Dataset.load(folder("ours"), element_spec=tf.TensorSpec([], tf.int64))).get_next()
            with v1.Session(server.target()) as session:
                try:
                    session.run(element)
                    raise AssertionError("damaged metadata are read")
                except tf.errors.OpError:
                    pass
        with open(path, "wb") as file:
            file.write(content)


def barrier_steps(target):
    """What each step on a barrier gives."""
    results = []
    with tf.Graph().as_default():
        barrier = data_flow_ops.Barrier((tf.float32, tf.string), shapes=((2,), ()), name="b")
        insert = lambda keys, values, component: barrier.insert_many(component, keys, values)
        take = {(n, few): list(barrier.take_many(n, allow_small_batch=few)) for n in (0, 1, 2, 5) for few in (False, True)}
        row = lambda *values: [[v, v + 0.5] for v in values]
        first = insert(["x", "y", "z"], row(1.0, 2.0, 3.0), 0)
        second = insert(["z", "x"], ["zz", "xx"], 1)
        again = insert(["y"], row(7.0), 0)
        rest = insert(["y"], ["yy"], 1)
        new = insert(["w"], ["ww"], 1)
        wrong_component = raw.BarrierInsertMany(handle=barrier.barrier_ref, keys=["a"], values=["b"], component_index=5)
        wrong_shape = raw.BarrierInsertMany(handle=barrier.barrier_ref, keys=["a"], values=[[1.0, 2.0, 3.0]], component_index=0)
        nothing = raw.BarrierInsertMany(handle=barrier.barrier_ref, keys=["a"], values=np.zeros([1, 0], np.float32), component_index=0)
        sizes = [barrier.ready_size(), barrier.incomplete_size()]
        close, cancel = barrier.close(), barrier.close(cancel_pending_enqueues=True)
        with v1.Session(target) as session:
            def step(fetches):
                results.append(outcome(session, fetches))
            for fetches in (sizes, first, sizes, take[0, False], again, second, sizes, take[1, False], wrong_component, nothing, close, close, new, sizes,
                            take[5, False], rest, sizes, take[1, True], take[5, True], take[1, True], take[1, False], sizes, cancel,
                            cancel, new, sizes):
                step(fetches)
            assert isinstance(outcome(session, wrong_shape), str)
    return results


def test_barriers(server):
    expected, found = barrier_steps(""), barrier_steps(server.target())
    for i, (e, f) in enumerate(zip(expected, found)):
        if isinstance(e, str) or e is None or f is None or isinstance(f, str):
            assert type(e) is type(f) and e == f, (i, e, f)
        else:
            for one, other in zip(flat(e), flat(f)):
                np.testing.assert_array_equal(other, one, err_msg="step %d" % i)


def test_taking_from_a_barrier_waits_and_is_cancelled(server):
    with tf.Graph().as_default():
        barrier = data_flow_ops.Barrier((tf.int64,), shapes=((),), shared_name="shared", name="b")
        taken = barrier.take_many(2)
        insert = barrier.insert_many(0, ["a"], np.int64([1]))
        another = barrier.insert_many(0, ["b"], np.int64([2]))
        with v1.Session(server.target()) as session:
            session.run(insert)
            try:
                session.run(taken, options=v1.RunOptions(timeout_in_ms=300))
                raise AssertionError("one element is not two")
            except tf.errors.DeadlineExceededError:
                pass
            results = []
            thread = threading.Thread(target=lambda: results.append(session.run(taken)))
            thread.start()
            session.run(another)
            thread.join(60)
            assert sorted(results[0][1]) == [b"a", b"b"], results
            # Two takes of one graph are two takes.
            twice = [barrier.take_many(1)[1], barrier.take_many(1)[1]]
            session.run([insert, another])
            assert sorted(np.concatenate(session.run(twice))) == [b"a", b"b"]


def test_errors_are_skipped(server):
    """Also those of functions that end with OutOfRange where that is no end."""
    r = Dataset.range

    def beyond(k):
        return lambda v: raw.GetElementAtIndex(dataset=r(9)._variant_tensor, index=tf.where(v == k, np.int64(100), v), output_types=[tf.int64],
                                               output_shapes=[[]])[0]
    compare_datasets(server, [
        lambda: r(6).filter(lambda v: beyond(2)(v) >= 0).ignore_errors(), lambda: r(6).map(beyond(2)).ignore_errors(),
        lambda: r(6).filter(lambda v: beyond(2)(v) >= 0), lambda: r(6).take_while(lambda v: beyond(2)(v) >= 0).ignore_errors(),
        lambda: r(6).filter(lambda v: beyond(2)(v) >= 0).prefetch(2).ignore_errors(), lambda: r(6).filter(lambda v: beyond(2)(v) >= 0).ignore_errors().batch(2),
        lambda: r(3).flat_map(lambda n: r(6).filter(lambda v: beyond(2)(v) >= 0)).ignore_errors(),
        lambda: r(9).map(beyond(2), num_parallel_calls=3).ignore_errors(), lambda: r(9).map(beyond(2), num_parallel_calls=1).ignore_errors().batch(3),
        lambda: r(3).flat_map(lambda n: r(6).filter(lambda v: beyond(2)(v) >= 0).ignore_errors()),
    ])


def written_csv():
    path = os.path.join(sys.argv[2], "positions.csv")
    with open(path, "w") as file:
        file.write("".join('%d,"x\n%d",z\n' % (i, i) for i in range(9)))
    return path


def test_positions_are_saved_and_restored(server):
    """Half of a pass, the rest of it, and the rest again in a new pass that is put there."""
    folder = tree()
    r = Dataset.range
    joined = grouping.Reducer(lambda key: tf.as_string(key), lambda state, v: state + ":" + tf.as_string(v), lambda state: state)
    for build in (
            lambda: over(raw.RebatchDataset, r(20).batch(5), int64(None), num_replicas=2),
            lambda: over(raw.RebatchDatasetV2, r(20).batch(5), int64(None), batch_sizes=[2, 1], drop_remainder=False),
            lambda: r(9).map(lambda v: tf.fill([v % 3 + 1], v)).apply(batching.dense_to_sparse_batch(2, [4])),
            lambda: over(raw.ShuffleAndRepeatDataset, r(5), buffer_size=3, seed=5, seed2=11, count=3),
            lambda: matching_files.MatchingFilesDataset([folder + "/*/*", folder + "/*"]),
            lambda: r(20).apply(grouping.group_by_reducer(lambda v: v % 7, joined)),
            lambda: sliding(r(20), 3, 2, 2, False), lambda: sliding(r(30), 2, 5),
            lambda: over_function(raw.MapAndBatchDataset, r(20), lambda v: v * v, 3, 2, False),
            lambda: tf.data.experimental.CsvDataset(written_csv(), [tf.string] * 3),
            lambda: r(9).map(lambda v: tf.fill([v % 3 + 1], v)).apply(batching.dense_to_sparse_batch(1, [4])).shuffle(5, seed=1).prefetch(2),
            lambda: over(raw.SleepDataset, r(9), sleep_microseconds=1),
            lambda: made(raw.WeightedFlatMapDataset(input_datasets=[r(8)._variant_tensor, r(10, 18)._variant_tensor], weights=[0.5, 0.5],
                                                    output_types=[tf.int64], output_shapes=[[]]), int64()),
            lambda: over(raw.AutoShardDataset, r(20), num_workers=np.int64(3), index=np.int64(1)),
            lambda: Dataset.from_tensor_slices(written_examples()).batch(1).apply(
                tf.data.experimental.parse_example_dataset({"age": tf.io.FixedLenFeature([], tf.int64), "names": tf.io.VarLenFeature(tf.string)}))):
        with tf.Graph().as_default():
            iterator = data.make_initializable_iterator(build())
            element = iterator.get_next()
            position = raw.SerializeIterator(resource_handle=iterator._iterator_resource)
            path = os.path.join(sys.argv[2], "position")
            save = raw.SaveV2(prefix=path, tensor_names=["p"], shape_and_slices=[""], tensors=[position])
            restored = raw.RestoreV2(prefix=path, tensor_names=["p"], shape_and_slices=[""], dtypes=[tf.variant])[0]
            go_back = raw.DeserializeIterator(resource_handle=iterator._iterator_resource, serialized=restored)
            in_bytes = tf.io.serialize_tensor(position)
            given = v1.placeholder(tf.string, [])
            go_back_too = raw.DeserializeIterator(resource_handle=iterator._iterator_resource, serialized=tf.io.parse_tensor(given, tf.variant))
            with v1.Session(server.target()) as session:
                session.run(iterator.initializer)
                drained(session, element, 3)
                kept = session.run([in_bytes, save])[0]
                rest = drained(session, element)
                assert rest[1] == "OutOfRangeError" and rest[0], rest
                for back, feeds in ((go_back, {}), (go_back_too, {given: kept})):
                    session.run(iterator.initializer)
                    session.run(back, feeds)
                    assert_same(rest, drained(session, element), "the rest of a pass")


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
