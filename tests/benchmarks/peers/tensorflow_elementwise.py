#!/usr/bin/env python3
"""The graphs of weir_bench's elementwise, run by TensorFlow in v1 graph mode: one JSON line a metric.

    TF_ENABLE_ONEDNN_OPTS=1 python tensorflow_elementwise.py [--xla] [gelu mix adam]

Needs tensorflow-cpu. Graph optimizations are TensorFlow's defaults; with --xla its compiler clusters the ops too.
"""
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if "--xla" in sys.argv:
    os.environ["TF_XLA_FLAGS"] = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
import numpy as np
import tensorflow

from tensorflow_executor import seconds_of

tf = tensorflow.compat.v1
tf.disable_eager_execution()


def variable(count):
    return tf.get_variable("v%d" % len(tf.global_variables()), dtype=tf.float32, use_resource=True,
                           initializer=np.random.RandomState(1).rand(count).astype(np.float32))


def gelu(count):
    x = variable(count).read_value()
    inner = (x + (x * x * x) * 0.044715) * 0.79788456
    return [variable(count).assign((x * 0.5) * (tf.tanh(inner) + 1.0)).op]


def mix(count):
    x = variable(count).read_value()
    return [variable(count).assign(x * tf.tanh(tf.nn.softplus(x)) + tf.sigmoid(x) * 0.1).op]


def adam(count):
    m, v, p, g = (variable(count) for _ in range(4))
    gradient = g.read_value()
    new_m = m.read_value() * 0.9 + gradient * 0.1
    new_v = v.read_value() * 0.999 + (gradient * gradient) * 0.001
    step = (new_m * 1e-6) / (tf.sqrt(new_v) + 1e-7)
    new_p = p.read_value() - step
    return [m.assign(new_m).op, v.assign(new_v).op, p.assign(new_p).op]


def seconds_of_formula(build, count):
    with tf.Graph().as_default() as graph:
        targets = build(count)
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            step = session.make_callable(tf.group(*targets))
            return seconds_of(step, min_seconds=0.5)


def main(names):
    formulas = {"gelu": gelu, "mix": mix, "adam": adam}
    for name in names or formulas:
        for count in (16, 1024, 65536, 1 << 20, 1 << 24):
            print(json.dumps({
                "peer": "tensorflow " + tensorflow.__version__,
                "metric": "elementwise_%s_%d" % (name, count),
                "value": float("%.5g" % (seconds_of_formula(formulas[name], count) * 1e6)),
                "unit": "us",
            }), flush=True)


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if not name.startswith("--")])
