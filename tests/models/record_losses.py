"""Losses: values of every reduction with several weights, and gradients."""

import tensorflow as tf

from recorder import pattern

v1 = tf.compat.v1
losses = v1.losses

REDUCTIONS = {
    "none": losses.Reduction.NONE,
    "sum": losses.Reduction.SUM,
    "mean": losses.Reduction.MEAN,
    "over_batch": losses.Reduction.SUM_OVER_BATCH_SIZE,
    "by_nonzero": losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
}


def weights_for(shape):
    """By name: weights of losses of this shape; patterns have zeros."""
    return {
        "default": lambda: 1.0,
        "number": lambda: 0.5,
        "zero": lambda: 0.0,
        "scalar": lambda: tf.constant(0.25),
        "each": lambda: tf.constant(pattern(shape, 4)),
        "row": lambda: tf.constant(pattern([shape[0]] + [1] * (len(shape) - 1), 2)),
    }



def bits(shape, seed):
    return tf.constant((pattern(shape, seed) > 0).astype("float32"))


def distributions(shape, seed):
    return tf.nn.softmax(tf.constant(pattern(shape, seed)))


def functions():
    """By name: the shape of the losses, and loss(predictions, **arguments) of predictions with that seed."""
    return {
        "absolute_difference": ([3, 4], lambda x, **a: losses.absolute_difference(pattern([3, 4], 2), x, **a)),
        "mean_squared_error": ([3, 4], lambda x, **a: losses.mean_squared_error(pattern([3, 4], 2), x, **a)),
        "huber": ([3, 4], lambda x, **a: losses.huber_loss(pattern([3, 4], 2), x, delta=0.6, **a)),
        "cosine_distance": ([3, 1], lambda x, **a: losses.cosine_distance(pattern([3, 4], 2), x, axis=1, **a)),
        "hinge": ([3, 4], lambda x, **a: losses.hinge_loss(bits([3, 4], 2), x, **a)),
        "log_loss": ([3, 4], lambda x, **a: losses.log_loss(bits([3, 4], 2), x / 4 + 0.5, **a)),
        "sigmoid": ([3, 4], lambda x, **a: losses.sigmoid_cross_entropy(bits([3, 4], 2), x, **a)),
        "sigmoid_smooth": ([3, 4], lambda x, **a: losses.sigmoid_cross_entropy(
            bits([3, 4], 2), x, label_smoothing=0.2, **a)),
        "softmax": ([3], lambda x, **a: losses.softmax_cross_entropy(distributions([3, 4], 2), x, **a)),
        "softmax_smooth": ([3], lambda x, **a: losses.softmax_cross_entropy(
            distributions([3, 4], 2), x, label_smoothing=0.2, **a)),
        "sparse_softmax": ([3], lambda x, **a: losses.sparse_softmax_cross_entropy([3, 0, 1], x, **a)),
    }


def record(recorder):
    for name, (shape, loss) in functions().items():
        for kind, weights in weights_for(shape).items():
            for reduction, key in REDUCTIONS.items():
                recorder.evaluate("losses/%s/%s/%s" % (name, kind, reduction), lambda: loss(
                    tf.constant(pattern([3, 4], 1)), weights=weights(), reduction=key))

        def gradient():
            x = tf.constant(pattern([3, 4], 1))
            return tf.gradients(loss(x, weights=weights_for(shape)["each"]()), x)[0]
        recorder.evaluate("losses/%s/gradient" % name, gradient)
    recorder.evaluate("losses/softmax_rank_3", lambda: losses.softmax_cross_entropy(
        distributions([2, 3, 4], 2), tf.constant(pattern([2, 3, 4], 1)), reduction=losses.Reduction.NONE))
    recorder.evaluate("losses/sparse_softmax_rank_3", lambda: losses.sparse_softmax_cross_entropy(
        [[3, 0, 1], [2, 2, 0]], tf.constant(pattern([2, 3, 4], 1)), reduction=losses.Reduction.NONE))
    recorder.evaluate("losses/sparse_softmax_squeezed", lambda: losses.sparse_softmax_cross_entropy(
        [[3], [0], [1]], tf.constant(pattern([3, 4], 1)), weights=tf.constant(pattern([3, 1], 2))))
