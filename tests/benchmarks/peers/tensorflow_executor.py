#!/usr/bin/env python3
"""The graphs of weir_bench's executor_add, run by TensorFlow in v1 graph mode: one JSON line a metric.

    TF_ENABLE_ONEDNN_OPTS=1 python tensorflow_executor.py [chain fan random cond]

Needs tensorflow-cpu. Graph optimizations are off: what is measured is the executor.
"""
import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow
from tensorflow.core.protobuf import config_pb2

tf = tensorflow.compat.v1
tf.disable_eager_execution()
tf.disable_control_flow_v2()


def vector(value):
    return tf.constant(np.full(16, value, np.float32))


def chain(x, pred, n):
    c, y = vector(1), x
    for _ in range(n):
        y = tf.add(y, c)
    return y


def fan(x, pred, n):
    return tf.add_n([tf.add(x, vector(i)) for i in range(n)])


def random(x, pred, n):
    numbers = np.random.RandomState(0)
    sums, pairs, unread = [x, tf.add(x, vector(1))], set(), {1}
    while len(sums) < n + 1:
        count = len(sums)
        a, b = sorted(int(i) for i in numbers.randint(max(0, count - 64), count, size=2))
        if a != b and (a, b) not in pairs:
            pairs.add((a, b))
            sums.append(tf.add(sums[a], sums[b]))
            unread -= {a, b}
        else:
            sums.append(tf.add(x, vector(count)))
        unread.add(count)
    return tf.add_n([sums[i] for i in sorted(unread)])


def cond(x, pred, n):
    c, d, y = vector(1), vector(2), x
    for _ in range(n):
        y = tf.cond(pred, lambda: tf.add(y, c), lambda: tf.add(y, d))
    return y


def seconds_of(call, min_seconds=1.0, rounds=7, warmup=3):
    """The median over the rounds of the mean time of one call."""
    for _ in range(warmup):
        call()
    begin = time.perf_counter()
    call()
    count = max(1, int(min_seconds / rounds / max(time.perf_counter() - begin, 1e-7)))
    means = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        means.append((time.perf_counter() - begin) / count)
    return float(np.median(means))


def seconds_of_graph(build, n, threads):
    config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with tf.Graph().as_default() as graph:
        x, pred = tf.placeholder(tf.float32, [16]), tf.placeholder(tf.bool, [])
        sink = build(x, pred, n)
        with tf.Session(graph=graph, config=config) as session:
            options = config_pb2.CallableOptions(feed=[x.name, pred.name], target=[sink.op.name])
            step = session._make_callable_from_options(options)
            feeds = np.zeros(16, np.float32), np.bool_(True)
            return seconds_of(lambda: step(*feeds))


def main(names):
    kinds = {"chain": chain, "fan": fan, "random": random, "cond": cond}
    for name in names or kinds:
        for threads in (1, 2):
            small, large = (seconds_of_graph(kinds[name], n, threads) for n in (1000, 11000))
            print(json.dumps({
                "peer": "tensorflow " + tensorflow.__version__,
                "metric": "executor_add16_%s_%dt" % (name, threads),
                "value": float("%.5g" % ((large - small) / 10000 * 1e9)),
                "unit": "ns/cond" if name == "cond" else "ns/op",
                "detail": {"run_1000_us": small * 1e6, "run_11000_us": large * 1e6},
            }), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
