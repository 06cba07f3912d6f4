"""Learning rates and clipped gradients."""

import numpy as np
import tensorflow as tf

from recorder import pattern

v1 = tf.compat.v1
train = v1.train

STEPS = [0, 1, 3, 9, 10, 11, 25, 30, 47, 100]


def learning_rates():
    """By name: a function of the step."""
    return {
        "exponential": lambda s: train.exponential_decay(0.5, s, 10, 0.3),
        "exponential_staircase": lambda s: train.exponential_decay(0.5, s, 10, 0.3, staircase=True),
        "natural_exp": lambda s: train.natural_exp_decay(0.5, s, 10, 0.3),
        "natural_exp_staircase": lambda s: train.natural_exp_decay(0.5, s, 10, 0.3, staircase=True),
        "inverse_time": lambda s: train.inverse_time_decay(0.5, s, 10, 0.3),
        "inverse_time_staircase": lambda s: train.inverse_time_decay(0.5, s, 10, 0.3, staircase=True),
        "polynomial": lambda s: train.polynomial_decay(0.5, s, 30, 0.01, power=2.0),
        "polynomial_cycle": lambda s: train.polynomial_decay(0.5, s, 30, 0.01, power=0.5, cycle=True),
        "piecewise": lambda s: train.piecewise_constant(s, [3, 30], [0.5, 0.25, 0.125]),
        "cosine": lambda s: train.cosine_decay(0.5, s, 40),
        "cosine_alpha": lambda s: train.cosine_decay(0.5, s, 40, alpha=0.2),
        "cosine_restarts": lambda s: train.cosine_decay_restarts(0.5, s, 7),
        "cosine_restarts_equal": lambda s: train.cosine_decay_restarts(0.5, s, 7, t_mul=1.0, m_mul=0.9, alpha=0.1),
        "cosine_restarts_growing": lambda s: train.cosine_decay_restarts(0.5, s, 7, t_mul=1.5, m_mul=0.8),
        "linear_cosine": lambda s: train.linear_cosine_decay(0.5, s, 40),
        "linear_cosine_all": lambda s: train.linear_cosine_decay(0.5, s, 40, num_periods=1.5, alpha=0.1, beta=0.02),
    }


def rates_at_steps(rate, seed=None):
    """The rate at each of STEPS, drawn one after another."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        if seed is not None:
            v1.set_random_seed(seed)
        step = v1.placeholder(tf.int64, [])
        value = rate(step)
        seeds = [node.get_attr("seed2") for node in graph.get_operations() if node.type == "RandomStandardNormal"]
        return [session.run(value, {step: s}) for s in STEPS], seeds


def record_learning_rates(recorder):
    recorder.put("learning_rate/steps", np.array(STEPS, np.int64))
    for name, rate in learning_rates().items():
        recorder.put("learning_rate/" + name, np.array(rates_at_steps(rate)[0]))


def record_noise(recorder):
    """The noise has no seed of its own: the op's, which TensorFlow takes from the graph, is recorded beside it."""
    values, seeds = rates_at_steps(lambda s: train.noisy_linear_cosine_decay(0.5, s, 40, alpha=0.1), seed=5)
    recorder.put("learning_rate/noisy_linear_cosine", np.array(values))
    recorder.put("learning_rate/noisy_linear_cosine/seed", np.array(seeds[0], np.int64))


def rows(shape, seed):
    """Slices of which one row comes twice."""
    return tf.IndexedSlices(tf.constant(pattern(shape, seed)), tf.constant([0, 2, 0]), tf.constant([4, shape[1]]))


def values_of(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def record_clipping(recorder):
    def tensors():
        return [tf.constant(pattern([3, 2], 1)), None, rows([3, 2], 2), tf.constant(pattern([4], 3))]

    for kind, make in {"dense": lambda: tf.constant(pattern([3, 4], 1)), "rows": lambda: rows([3, 4], 2)}.items():
        recorder.evaluate("clip_by_value/" + kind, lambda: values_of(tf.clip_by_value(make(), -0.3, 0.7)))
        recorder.evaluate("clip_by_norm/" + kind, lambda: values_of(tf.clip_by_norm(make(), 1.25)))
        recorder.evaluate("clip_by_norm/long/" + kind, lambda: values_of(tf.clip_by_norm(make(), 100.0)))
        recorder.evaluate("clip_by_norm/axes/" + kind, lambda: values_of(tf.clip_by_norm(make(), 0.9, axes=[1])))
    recorder.evaluate("global_norm", lambda: v1.global_norm(tensors()))
    for name, norm, use in [("short", 1.5, None), ("long", 100.0, None), ("given", 1.5, 7.0), ("infinite", 1.5, np.inf)]:
        for i in [0, 2, 3]:
            recorder.evaluate("clip_by_global_norm/%s/%d" % (name, i), lambda: values_of(tf.clip_by_global_norm(
                tensors(), norm, use_norm=None if use is None else tf.constant(use, tf.float32))[0][i]))


def record(recorder):
    record_learning_rates(recorder)
    record_noise(recorder)
    record_clipping(recorder)
