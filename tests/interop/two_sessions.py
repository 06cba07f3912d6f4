"""What scripts share that run one graph in TensorFlow's own session and on `weir serve`. Import it before TensorFlow."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import numpy as np
import tensorflow as tf


def numbers(*shape, seed=1):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)


def compare(server, build, steps, config=None):
    """`steps(session, model)` gives values; the model is what `build()` makes in a graph of its own."""
    results = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            model = build()
            with tf.compat.v1.Session(target, config=config) as session:
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


def outcome(session, fetches):
    try:
        return session.run(fetches)
    except tf.errors.OpError as error:
        return type(error).__name__


def assert_same(found, expected, tolerance, what):
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), what
        for f, e in zip(found, expected):
            assert_same(f, e, tolerance, what)
    elif tolerance:
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=what)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=what)


def compare_each(server, build, tolerance=0):
    """Each of the fetches that build() gives has the same value, or an error of the same class, on both."""
    results = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            fetches = build()
            with tf.compat.v1.Session(target) as session:
                results.append([outcome(session, fetch) for fetch in fetches])
    for fetch, expected, found in zip(fetches, *results):
        if isinstance(expected, str) or isinstance(found, str):
            assert isinstance(expected, str) and expected == found, (fetch, expected, found)
        elif expected is not None:
            assert_same(found, expected, tolerance, str(fetch))
