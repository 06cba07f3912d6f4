"""What scripts share that run one graph in TensorFlow's own session and on `weir serve`. Import it before TensorFlow."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import numpy as np
import tensorflow as tf


def numbers(*shape, seed=1):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)


def compare(server, build, steps):
    """`steps(session, model)` gives values; the model is what `build()` makes in a graph of its own."""
    results = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            model = build()
            with tf.compat.v1.Session(target) as session:
                results.append(steps(session, model))
    expected, found = results
    assert len(expected) == len(found)
    for i, (e, f) in enumerate(zip(expected, found)):
        np.testing.assert_allclose(f, e, rtol=2e-5, atol=1e-5, err_msg="value %d" % i)
    return found


def error_of(call):
    try:
        call()
    except tf.errors.OpError as error:
        return error
    raise AssertionError("no error")
