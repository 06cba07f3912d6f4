"""Metrics: value and update after each of three batches, and the names of their variables."""

import tensorflow as tf

from recorder import pattern

v1 = tf.compat.v1
metrics = v1.metrics


def bits(x):
    return tf.cast(x > 0, tf.float32)


def functions():
    """By name: a metric of numbers x and y of shape [3, 4] and weights w."""
    return {
        "mean": lambda x, y, w: metrics.mean(x),
        "mean_weighted": lambda x, y, w: metrics.mean(x, w),
        "accuracy": lambda x, y, w: metrics.accuracy(bits(x), bits(y)),
        "accuracy_weighted": lambda x, y, w: metrics.accuracy(bits(x), bits(y), w),
        "mean_squared_error": lambda x, y, w: metrics.mean_squared_error(x, y, w),
        "precision": lambda x, y, w: metrics.precision(bits(x), bits(y)),
        "precision_weighted": lambda x, y, w: metrics.precision(bits(x), bits(y), w),
        "recall": lambda x, y, w: metrics.recall(bits(x), bits(y)),
        "recall_weighted": lambda x, y, w: metrics.recall(bits(x), bits(y), w),
        "auc": lambda x, y, w: metrics.auc(bits(x), y / 2 + 0.5),
        "auc_coarse": lambda x, y, w: metrics.auc(bits(x), y / 2 + 0.5, w, num_thresholds=5),
    }


def record(recorder):
    for name, metric in functions().items():
        with tf.Graph().as_default(), v1.Session() as session:
            x, y = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.float32, [None, 4])
            value, update = metric(x, y, tf.constant(pattern([3, 1], 5)) + 1.0)
            session.run(v1.local_variables_initializer())
            recorder.put("metrics/%s/variables" % name, sorted(v.op.name for v in v1.local_variables()))
            recorder.put("metrics/%s/before" % name, session.run(value))
            for i in range(3):
                feeds = {x: pattern([3, 4], 1 + i), y: pattern([3, 4], 4 + i)}
                recorder.put("metrics/%s/%d/update" % (name, i), session.run(update, feeds))
                recorder.put("metrics/%s/%d/value" % (name, i), session.run(value))
