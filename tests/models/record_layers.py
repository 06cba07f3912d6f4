"""Layers: their variables, results, gradients and moving averages; first values of variables."""

import numpy as np
import tensorflow as tf
from tensorflow.python.keras.legacy_tf_layers import convolutional, core, pooling
from tensorflow.python.training import moving_averages

from recorder import pattern

v1 = tf.compat.v1


def l2(scale):
    return lambda weights: scale * tf.nn.l2_loss(weights)


def l1(scale):
    return lambda weights: scale * tf.reduce_sum(tf.abs(weights))


def batch_normalization(x, training, axis=-1, center=True, scale=True, momentum=0.99, epsilon=0.001):
    """tf.layers.batch_normalization of what TensorFlow still has of it: its ops, and TensorFlow 1.15's variables."""
    channels = [x.shape[axis]]
    with v1.variable_scope(None, "batch_normalization"):
        gamma = v1.get_variable("gamma", channels, initializer=tf.ones_initializer()) if scale else None
        beta = v1.get_variable("beta", channels, initializer=tf.zeros_initializer()) if center else None
        mean = v1.get_variable("moving_mean", channels, initializer=tf.zeros_initializer(), trainable=False)
        variance = v1.get_variable("moving_variance", channels, initializer=tf.ones_initializer(), trainable=False)
    if x.shape.rank == 4:
        averages = [] if training else [mean, variance]
        y, batch_mean, batch_variance = v1.nn.fused_batch_norm(
            x, tf.ones(channels) if gamma is None else gamma, tf.zeros(channels) if beta is None else beta, *averages,
            epsilon=epsilon, is_training=training)
    else:
        axis %= x.shape.rank
        shape = [1] * x.shape.rank
        shape[axis] = -1
        batch_mean, batch_variance = mean, variance
        if training:
            batch_mean, batch_variance = v1.nn.moments(x, [i for i in range(x.shape.rank) if i != axis])
        along = lambda v: None if v is None else tf.reshape(v, shape)
        y = tf.nn.batch_normalization(x, along(batch_mean), along(batch_variance), along(beta), along(gamma), epsilon)
    if training:
        for average, value in [(mean, batch_mean), (variance, batch_variance)]:
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, moving_averages.assign_moving_average(
                average, value, momentum, zero_debias=False))
    return y


def in_parts(layer, axis=0):
    def build(x):
        with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(2, axis)):
            return layer(x)
    return build


def layers():
    """By name: the shape of x, and a function of it."""
    conv, sep = convolutional, convolutional.separable_conv2d
    return {
        "dense": ([3, 4], lambda x: core.dense(x, 5, tf.nn.relu)),
        "dense_twice": ([3, 4], lambda x: core.dense(core.dense(x, 5, tf.nn.tanh), 2, use_bias=False)),
        "dense_rank_3": ([2, 3, 4], lambda x: core.dense(x, 5)),
        "dense_regularized": ([3, 4], lambda x: core.dense(
            x, 5, kernel_regularizer=l2(0.5), bias_regularizer=l1(0.25), name="head")),
        "conv1d": ([2, 7, 3], lambda x: conv.conv1d(x, 4, 3)),
        "conv1d_strided": ([2, 7, 3], lambda x: conv.conv1d(x, 4, 3, strides=2, padding="same")),
        "conv1d_dilated": ([2, 9, 3], lambda x: conv.conv1d(x, 2, 3, dilation_rate=2, use_bias=False)),
        "conv2d": ([2, 6, 5, 3], lambda x: conv.conv2d(x, 4, [3, 2], strides=[2, 1], padding="same")),
        "conv3d": ([2, 3, 4, 5, 2], lambda x: conv.conv3d(x, 3, [2, 3, 1], strides=[1, 2, 1], padding="same")),
        "conv3d_valid": ([1, 4, 4, 5, 2], lambda x: conv.conv3d(x, 2, 3, activation=tf.nn.tanh, use_bias=False)),
        "max_pooling3d": ([2, 4, 5, 4, 2], lambda x: pooling.max_pooling3d(x, [2, 3, 2], [2, 1, 2])),
        "average_pooling3d": ([2, 4, 5, 4, 2], lambda x: pooling.average_pooling3d(x, [2, 3, 2], [2, 1, 3], padding="same")),
        "dense_in_parts": ([3, 4], in_parts(lambda x: core.dense(
            x, 5, tf.nn.relu, kernel_regularizer=l2(0.5), bias_regularizer=l1(0.25)))),
        "conv1d_in_parts": ([2, 7, 3], in_parts(lambda x: conv.conv1d(x, 4, 3))),
        "conv2d_in_parts": ([2, 6, 5, 3], in_parts(lambda x: conv.conv2d(x, 4, [3, 2], use_bias=False), 3)),
        "conv2d_transpose_in_parts": ([2, 3, 4, 3], in_parts(lambda x: conv.conv2d_transpose(x, 2, [3, 2]))),
        "conv3d_transpose": ([2, 2, 3, 2, 3], lambda x: conv.conv3d_transpose(x, 2, [2, 3, 1], strides=[2, 1, 2])),
        "conv3d_transpose_same": ([1, 2, 3, 2, 2], lambda x: conv.conv3d_transpose(
            x, 3, 3, strides=2, padding="same", activation=tf.nn.tanh, use_bias=False)),
        "conv3d_in_parts": ([1, 4, 4, 5, 2], in_parts(lambda x: conv.conv3d(x, 2, 3))),
        "separable_conv2d_in_parts": ([2, 6, 5, 3], in_parts(lambda x: sep(x, 4, [3, 2], pointwise_regularizer=l2(0.5)))),
        "conv2d_transpose": ([2, 3, 4, 3], lambda x: conv.conv2d_transpose(x, 2, [3, 2], strides=[2, 1])),
        "conv2d_transpose_same": ([2, 3, 4, 3], lambda x: conv.conv2d_transpose(
            x, 2, 3, strides=2, padding="same", activation=tf.nn.tanh)),
        "conv2d_transpose_gap": ([1, 2, 2, 1], lambda x: conv.conv2d_transpose(x, 2, 1, strides=3, use_bias=False)),
        "separable_conv2d": ([2, 6, 5, 3], lambda x: sep(x, 4, [3, 2], depth_multiplier=2)),
        "separable_conv2d_strided": ([2, 6, 6, 3], lambda x: sep(
            x, 4, 3, strides=2, padding="same", activation=tf.nn.relu, pointwise_regularizer=l2(0.5))),
        "max_pooling1d": ([2, 7, 3], lambda x: pooling.max_pooling1d(x, 3, 2, padding="same")),
        "average_pooling1d": ([2, 7, 3], lambda x: pooling.average_pooling1d(x, 3, 2)),
        "max_pooling2d": ([2, 6, 5, 3], lambda x: pooling.max_pooling2d(x, [2, 3], [2, 1])),
        "average_pooling2d": ([2, 6, 5, 3], lambda x: pooling.average_pooling2d(x, [2, 3], [2, 1], padding="same")),
        "batch_norm_images": ([3, 4, 2, 3], lambda x: batch_normalization(x, True)),
        "batch_norm_images_inference": ([3, 4, 2, 3], lambda x: batch_normalization(x, False)),
        "batch_norm_images_bare": ([3, 4, 2, 3], lambda x: batch_normalization(x, True, center=False, scale=False)),
        "batch_norm_rows": ([6, 4], lambda x: batch_normalization(x, True, momentum=0.75, epsilon=0.01)),
        "batch_norm_rows_inference": ([6, 4], lambda x: batch_normalization(x, False)),
        "batch_norm_rows_bare": ([6, 4], lambda x: batch_normalization(x, True, center=False, scale=False)),
        "batch_norm_sequences_first": ([3, 4, 5], lambda x: batch_normalization(x, True, axis=1)),
    }


def value_for(variable, index):
    """A value for variable number `index`; deviations are positive."""
    value = pattern(variable.shape.as_list(), 2 + index)
    return np.abs(value) + np.float32(0.5) if "variance" in variable.name else value


def describe(variable):
    trainable = any(variable is v for v in v1.trainable_variables())
    shape = "[%s]" % ",".join(map(str, variable.shape.as_list()))
    return "%s %s%s" % (variable.op.name, shape, "" if trainable else " fixed")


def record_layer(recorder, name, shape, layer):
    with tf.Graph().as_default(), v1.Session() as session:
        x = tf.constant(pattern(shape, 1))
        y = layer(x)
        variables = v1.global_variables()
        loss = tf.reduce_sum(y * pattern(y.shape.as_list(), 9))
        trained = v1.trainable_variables()
        gradients = tf.gradients(loss, [x] + trained)
        penalties = v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        for i, variable in enumerate(variables):
            variable.load(value_for(variable, i), session)
        recorder.put("layers/%s/variables" % name, [describe(v) for v in variables])
        recorder.put("layers/%s/output" % name, session.run(y))
        for source, gradient in zip(["x"] + [v.op.name for v in trained], gradients):
            recorder.put("layers/%s/gradient/%s" % (name, source), session.run(gradient))
        if penalties:
            recorder.put("layers/%s/regularization" % name, session.run(tf.add_n(penalties)))
        session.run(updates)
        for variable in variables if updates else []:
            recorder.put("layers/%s/updated/%s" % (name, variable.op.name), session.run(variable))


def initializers():
    init = v1.initializers
    return {
        "random_normal": init.random_normal(0.5, 2.0, seed=7),
        "truncated_normal": init.truncated_normal(0.0, 0.25, seed=7),
        "random_uniform": init.random_uniform(-0.5, 2.0, seed=7),
        "glorot_uniform": v1.glorot_uniform_initializer(seed=7),
        "glorot_normal": v1.glorot_normal_initializer(seed=7),
        "he_uniform": init.he_uniform(seed=7),
        "he_normal": init.he_normal(seed=7),
        "lecun_uniform": init.lecun_uniform(seed=7),
        "lecun_normal": init.lecun_normal(seed=7),
        "variance_scaling": init.variance_scaling(0.5, "fan_out", "untruncated_normal", seed=7),
        "identity": init.identity(0.5),
        "orthogonal": init.orthogonal(0.5, seed=7),
    }


def record(recorder):
    for name, (shape, layer) in layers().items():
        record_layer(recorder, name, shape, layer)
    for name, initializer in initializers().items():
        shapes = {"identity": [[3, 4]], "orthogonal": [[3, 4], [2, 2, 3, 2]]}
        for shape in shapes.get(name, [[3, 4], [2, 2, 3, 2], [5]]):
            def build():
                v1.set_random_seed(3)
                return initializer(shape, dtype=tf.float32)
            recorder.evaluate("initializers/%s/%d" % (name, len(shape)), build)
