#!/usr/bin/env python3
"""The kernels of weir_bench's `kernels`, run by TensorFlow in v1 graph mode: one JSON line a metric.

    TF_ENABLE_ONEDNN_OPTS=1 python tensorflow_kernels.py

Needs tensorflow-cpu.
"""
import json

import numpy as np
import tensorflow
from tensorflow.core.protobuf import config_pb2

from tensorflow_executor import seconds_of, tf


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
            seconds = seconds_of(session._make_callable_from_options(options))
    print(json.dumps({"peer": "tensorflow " + tensorflow.__version__, "metric": metric,
                      "value": float("%.5g" % (seconds * 1e6)), "unit": "us"}), flush=True)


def main():
    tall = ramp(262144, 16)
    measure("kernel_multiply_row_262144x16", [tall, ramp(16)], tf.multiply)
    measure("kernel_multiply_column_262144x16", [tall, ramp(262144, 1)], tf.multiply)
    measure("kernel_sum_rows_262144x16", [tall], lambda x: tf.reduce_sum(x, [0]))
    square = ramp(1024, 1024)
    measure("kernel_matmul_bf16_1024", [square, square], tf.matmul, tf.bfloat16)


if __name__ == "__main__":
    main()
