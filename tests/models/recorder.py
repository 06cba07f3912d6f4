"""Collects what TensorFlow computes."""

import math

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def pattern(shape, seed):
    """Numbers from -1 to 1 in steps of 1/8, as Pattern in recorded_model.h makes them."""
    count = int(np.prod(shape))
    values = [((i * (2 * seed + 7) + seed) % 17 - 8) / 8 for i in range(count)]
    return np.array(values, np.float32).reshape(shape)


def to_json(number):
    """As many digits as a float has; NaN and infinities as strings."""
    if not isinstance(number, float):
        return number
    return float("%.9g" % number) if math.isfinite(number) else str(number)


class Recorder:
    """Collects entries, and runs each case in a graph and session of its own."""

    def __init__(self):
        self.entries = {}

    def put(self, name, value):
        assert name not in self.entries, name
        if isinstance(value, list):
            self.entries[name] = value
            return
        value = np.asarray(value)
        values = [to_json(v) for v in value.ravel().tolist()]
        self.entries[name] = {"dtype": value.dtype.name, "shape": list(value.shape), "values": values}

    def evaluate(self, name, build):
        """Puts the tensor that build() gives."""
        with tf.Graph().as_default(), v1.Session() as session:
            result = build()
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            self.put(name, session.run(result))
