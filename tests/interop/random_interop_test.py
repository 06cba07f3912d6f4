"""Random numbers of `weir serve` are those of TensorFlow for equal seeds, bit for bit where no sum of many numbers is rounded.

usage: random_interop_test.py WEIR EMPTY_DIRECTORY
"""
import sys

from two_sessions import compare_each

import numpy as np
import tensorflow as tf

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
v1.disable_eager_execution()
ops = tf.raw_ops
FLOATS = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
# More than one piece of the threads that fill a tensor; truncated numbers that are drawn again move no other.
COUNT = 100003
SEEDS = dict(seed=7, seed2=11)


def stateful():
    fetches = []
    for dtype in FLOATS:
        for draw in (ops.RandomUniform, ops.RandomStandardNormal, ops.TruncatedNormal):
            numbers = draw(shape=[COUNT], dtype=dtype, **SEEDS)
            fetches += [numbers, numbers]  # a second step goes on where the first one ended
    for dtype in (tf.int32, tf.int64):
        fetches.append(ops.RandomUniformInt(shape=[COUNT], minval=tf.constant(-5, dtype), maxval=tf.constant(1000, dtype), **SEEDS))
    return fetches


def stateless():
    seed, fetches = np.array([3, 1 << 40], np.int64), []
    for dtype in FLOATS:
        fetches += [draw(shape=[COUNT], seed=seed, dtype=dtype)
                    for draw in (ops.StatelessRandomUniform, ops.StatelessRandomNormal, ops.StatelessTruncatedNormal)]
    return fetches


def layers():
    """What programs draw: initializers and dropout."""
    v1.set_random_seed(3)
    kinds = [v1.glorot_normal_initializer(), v1.truncated_normal_initializer(stddev=0.1), v1.random_normal_initializer(1.0, 2.0, seed=4),
             v1.glorot_uniform_initializer(seed=5), v1.variance_scaling_initializer(seed=6)]
    return [kind([30, 40], dtype=tf.float32) for kind in kinds] + [v1.nn.dropout(tf.ones([1000]), rate=0.4)]


def rejections():
    """Numbers that are drawn until one is kept; the last digit of a logarithm may differ."""
    rates = tf.constant([0.3, 3.0, 20.0, 1000.0])
    return [draw for dtype in (tf.float32, tf.float64) for draw in (
        ops.RandomGamma(shape=[500], alpha=tf.cast([0.2, 1.0, 7.5], dtype), **SEEDS),
        ops.RandomPoissonV2(shape=[500], rate=tf.cast(rates, dtype), dtype=dtype, **SEEDS),
        ops.StatelessRandomBinomial(shape=[500, 4, 4], seed=[3, 4], counts=tf.cast([[5], [30], [1000], [60000]], dtype),
                                    probs=tf.cast([0.01, 0.3, 0.5, 0.9], dtype), dtype=dtype))]


def test_numbers_of_a_session(server):
    compare_each(server, stateful)


def test_numbers_of_a_seed(server):
    compare_each(server, stateless)


def test_numbers_of_layers(server):
    compare_each(server, layers)


def test_numbers_that_may_be_rejected(server):
    compare_each(server, rejections, tolerance=1e-6)


def test_choices(server):
    def build():
        logits = tf.math.log([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0001]])
        return [ops.Multinomial(logits=logits, num_samples=1000, **SEEDS), ops.RandomShuffle(value=tf.range(1000), **SEEDS),
                ops.StatelessMultinomial(logits=logits, num_samples=1000, seed=[1, 2])]

    compare_each(server, build)


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
