#!/usr/bin/env python3
"""The kernels of weir_bench's `kernels`, run by TensorFlow in v1 graph mode: one JSON line a metric.

    TF_ENABLE_ONEDNN_OPTS=1 python tensorflow_kernels.py

Needs tensorflow-cpu.
"""
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow
from tensorflow.core.protobuf import config_pb2

tf = tensorflow.compat.v1
tf.disable_eager_execution()


def ramp(*shape):
    return ((np.arange(np.prod(shape)) % 251) / 251 - 0.5).astype(np.float32).reshape(shape)


def measure(metric, inputs, op, dtype=tf.float32):
    """The inputs are variables: feeding them would measure a copy. The result stays where it is made."""
    with tf.Graph().as_default() as graph:
        variables = [tf.Variable(tf.cast(tf.constant(value), dtype), use_resource=True) for value in inputs]
        target = op(*[v.read_value() for v in variables]).op
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            options = config_pb2.CallableOptions(target=[target.name])
            run = session._make_callable_from_options(options)
            for _ in range(5):
                run()
            rounds = []
            for _ in range(7):
                calls, begin = 0, time.perf_counter()
                while time.perf_counter() < begin + 0.15:
                    run()
                    calls += 1
                rounds.append((time.perf_counter() - begin) / calls)
    print(json.dumps({"peer": "tensorflow", "metric": metric, "value": sorted(rounds)[3] * 1e6, "unit": "us"}), flush=True)


tall = ramp(262144, 16)
measure("kernel_multiply_row_262144x16", [tall, ramp(16)], tf.multiply)
measure("kernel_multiply_column_262144x16", [tall, ramp(262144, 1)], tf.multiply)
measure("kernel_sum_rows_262144x16", [tall], lambda x: tf.reduce_sum(x, [0]))
square = ramp(1024, 1024)
measure("kernel_matmul_bf16_1024", [square, square], tf.matmul, tf.bfloat16)
