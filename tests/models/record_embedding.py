"""Variables in parts: how they are cut, what they begin with, look-ups in them, how checkpoints name them."""

import os
import tempfile

import numpy as np
import tensorflow as tf

from recorder import pattern

v1 = tf.compat.v1

IDS = [[4, 0, 7], [3, 4, 6]]
# Ids of examples 0, 1 and 3: example 2 has none.
INDICES = [[0, 0], [0, 1], [1, 0], [3, 0], [3, 1], [3, 2]]
VALUES = [4, 0, 4, 7, 3, 7]


def partitioners():
    sized, least = v1.variable_axis_size_partitioner, v1.min_max_variable_partitioner
    return {
        "fixed": v1.fixed_size_partitioner(3),
        "fixed_axis_1": v1.fixed_size_partitioner(3, axis=1),
        "fixed_many": v1.fixed_size_partitioner(100),
        "min_max": least(max_partitions=4, min_slice_size=64),
        "min_max_axis_1": least(max_partitions=100, axis=1, min_slice_size=16),
        "min_max_small": least(max_partitions=4),
        "axis_size": sized(100),
        "axis_size_tiny": sized(1),
        "axis_size_limited": sized(1, max_shards=3),
        "axis_size_axis_1": sized(100, axis=1),
    }


def parts_of(num_parts, strategy):
    """The table of 8 rows in parts."""
    if strategy == "mod":
        sizes = [len(range(p, 8, num_parts)) for p in range(num_parts)]
    else:
        sizes = [8 // num_parts + (p < 8 % num_parts) for p in range(num_parts)]
    return [v1.get_variable("part_%d" % p, initializer=pattern([size, 3], 1 + p)) for p, size in enumerate(sizes)]


def put_with_gradients(recorder, name, build):
    """The tensor that build() gives, and the gradients of its sources, dense."""
    with tf.Graph().as_default(), v1.Session() as session:
        y, sources = build()
        session.run(v1.global_variables_initializer())
        values = session.run(y)
        recorder.put(name, values)
        loss = tf.reduce_sum(y * pattern(values.shape, 9))
        for i, gradient in enumerate(tf.gradients(loss, sources)):
            recorder.put("%s/gradient/%d" % (name, i), session.run(tf.convert_to_tensor(gradient)))


def record_lookups(recorder):
    for strategy in ["mod", "div"]:
        for num_parts in [1, 3]:
            def lookup():
                parts = parts_of(num_parts, strategy)
                return v1.nn.embedding_lookup(parts, tf.constant(IDS), strategy), parts
            put_with_gradients(recorder, "lookup/%s/%d" % (strategy, num_parts), lookup)
            for combiner in ["mean", "sum", "sqrtn"]:
                for weighted in [False, True]:
                    def sparse():
                        parts = parts_of(num_parts, strategy)
                        indices, shape = tf.constant(INDICES, tf.int64), tf.constant([4, 3], tf.int64)
                        ids = tf.SparseTensor(indices, tf.constant(VALUES), shape)
                        weights = tf.constant(pattern([6], 2))
                        given = tf.SparseTensor(indices, weights, shape) if weighted else None
                        y = v1.nn.embedding_lookup_sparse(parts, ids, given, strategy, combiner=combiner)
                        return y, parts + [weights] * weighted
                    put_with_gradients(recorder, "lookup_sparse/%s/%d/%s/%s" % (
                        strategy, num_parts, combiner, "weighted" if weighted else "equal"), sparse)


def record_initial_values(recorder):
    initializers = {"glorot_uniform": v1.glorot_uniform_initializer(seed=7), "he_normal": v1.initializers.he_normal(seed=7),
                    "identity": v1.initializers.identity(0.5)}
    for name, initializer in initializers.items():
        for axis in [0, 1]:
            with tf.Graph().as_default(), v1.Session() as session:
                v1.set_random_seed(3)
                table = v1.get_variable("t", [5, 4], initializer=initializer,
                                        partitioner=v1.fixed_size_partitioner(3, axis))
                session.run(v1.global_variables_initializer())
                recorder.put("partitioned/%s/%d" % (name, axis), session.run(tf.convert_to_tensor(table)))


def record_checkpoint(recorder):
    """What a checkpoint of a partitioned variable and its slots holds."""
    with tf.Graph().as_default(), v1.Session() as session, tempfile.TemporaryDirectory() as directory:
        with v1.variable_scope("net"):
            table = v1.get_variable("t", initializer=v1.constant_initializer(0.5), shape=[5, 2],
                                    partitioner=v1.fixed_size_partitioner(2))
        loss = tf.reduce_sum(tf.convert_to_tensor(table) ** 2)
        v1.train.AdamOptimizer(0.5).minimize(loss)
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver().save(session, os.path.join(directory, "model"))
        recorder.put("partitioned/variables", sorted(v.op.name for v in v1.global_variables()))
        shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
        recorder.put("partitioned/checkpoint", sorted(
            "%s [%s]" % (name, ",".join(map(str, shape))) for name, shape in shapes.items()))


def record(recorder):
    recorder.put("lookup/ids", np.array(IDS, np.int32))
    recorder.put("lookup_sparse/indices", np.array(INDICES, np.int64))
    recorder.put("lookup_sparse/values", np.array(VALUES, np.int32))
    for name, partitioner in partitioners().items():
        for shape in [[10, 7], [3, 40]]:
            parts = partitioner(shape=tf.TensorShape(shape), dtype=tf.float32)
            recorder.put("partitioner/%s/%dx%d" % (name, *shape), np.array(parts, np.int64))
    record_lookups(recorder)
    record_initial_values(recorder)
    record_checkpoint(recorder)
