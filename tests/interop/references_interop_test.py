"""Models with TensorFlow 1's reference variables give the same in Weir: what is read after an update, and what before.

usage: references_interop_test.py SAVED_MODEL_TOOL EMPTY_DIRECTORY
"""
import json
import os
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import numpy as np
import tensorflow as tf
from tensorflow.python.training import moving_averages

import cases

v1 = tf.compat.v1
ROWS = [[1.0, 2.0, 3.0], [-1.0, 0.5, 0.25]]


def variable(name, value):
    return v1.get_variable(name, initializer=np.array(value, np.float32))


def compare(tool, directory, build):
    """`build` gives the outputs of a placeholder; both run them once, from the same values of variables."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.disable_resource_variables()
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        outputs = build(x)
        assert any(node.op == "VariableV2" for node in session.graph.as_graph_def().node)
        session.run(v1.global_variables_initializer())
        model = directory + "/model"
        builder = v1.saved_model.Builder(model)
        signature = v1.saved_model.predict_signature_def({"x": x}, outputs)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, strip_default_attrs=True)
        builder.save()
        expected = session.run(outputs, {x: ROWS})
    result = subprocess.run([tool, "predict", model, "--inputs=" + json.dumps({"x": ROWS})], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_reads_after_an_update_see_it(tool, directory):
    def build(x):
        v = variable("v", [1, 1, 1])
        added = v1.assign_add(v, tf.reduce_sum(x, 0))
        with tf.control_dependencies([added]):
            # Of the reference, of the variable's snapshot, which was made before, and of a copy of that.
            return {"reference": v._ref() * 1.0, "snapshot": v * 1.0, "copy": tf.identity(v) * 1.0, "updated": added * 2.0}

    compare(tool, directory, build)


def test_updates_follow_one_another(tool, directory):
    def build(x):
        v = variable("v", np.arange(12).reshape(4, 3))
        updated = v1.scatter_update(v1.scatter_add(v, [1, 2], x), [0], [[9.0, 9.0, 9.0]])
        return {"y": v1.scatter_nd_update(updated, [[3]], [[7.0, 7.0, 7.0]]) * 1.0}

    compare(tool, directory, build)


def test_moving_averages(tool, directory):
    def build(x):
        mean = variable("mean", [0, 0, 0])
        weights = variable("weights", [1, 1, 1])
        update_mean = moving_averages.assign_moving_average(mean, tf.reduce_mean(x, 0), 0.9, zero_debias=False)
        average = tf.train.ExponentialMovingAverage(0.5)
        with tf.control_dependencies([weights.assign(tf.reduce_sum(x, 0))]):
            update_average = average.apply([weights])
        with tf.control_dependencies([update_mean, update_average]):
            return {"centered": x - tf.identity(mean), "average": tf.identity(average.average(weights))}

    compare(tool, directory, build)


def test_conditionals_and_loops(tool, directory):
    def build(x):
        v1.disable_control_flow_v2()
        weights, scale = variable("weights", 0.5 * np.eye(3)), variable("scale", 2)
        branch = v1.cond(tf.reduce_sum(x) > 0, lambda: x * scale, lambda: x - scale)
        ready = v1.cond(v1.is_variable_initialized(scale), lambda: scale._ref() + 1.0, lambda: tf.constant(0.0))
        _, loop = v1.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.matmul(y, weights) + 1.0), [tf.constant(0), x])
        return {"branch": branch, "ready": tf.identity(ready), "loop": loop}

    compare(tool, directory, build)


def test_a_step_of_training(tool, directory):
    def build(x):
        weights = variable("weights", np.full((3, 2), 0.3))
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - 1))
        with tf.control_dependencies([v1.train.AdamOptimizer(0.1).minimize(loss)]):
            return {"weights": tf.identity(weights), "loss": tf.reduce_mean(tf.square(tf.matmul(x, weights) - 1))}

    compare(tool, directory, build)


def test_parts_of_a_variable(tool, directory):
    def build(x):
        with v1.variable_scope("table", partitioner=v1.fixed_size_partitioner(2)):
            table = v1.get_variable("rows", [6, 4], initializer=v1.random_uniform_initializer(seed=3))
        return {"rows": v1.nn.embedding_lookup(table, tf.cast(tf.abs(x), tf.int64), partition_strategy="div")}

    compare(tool, directory, build)


if __name__ == "__main__":
    v1.disable_eager_execution()
    sys.exit(cases.run_in_folders(globals()))
