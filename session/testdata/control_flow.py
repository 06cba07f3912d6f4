"""Writes control_flow.pb, TensorFlow's graph of v1 conditionals and loops, and prints what TensorFlow computes with it.

usage: python control_flow.py OUTPUT     (control_flow.pb here was written with TensorFlow 2.21.0)
"""

import sys

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.disable_control_flow_v2()


def build(x, n):
    def deep():
        return tf.cond(x > 10.0, lambda: x * x, lambda: 3.0 * x)

    y = tf.identity(tf.cond(x > 0.0, deep, lambda: -x), name="y")
    tf.identity(tf.gradients(y, x)[0], name="dy")

    def outer(i, total):
        _, inner = tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + i * j), [tf.constant(0), total])
        return i + 1, inner

    tf.identity(tf.while_loop(lambda i, t: i < n, outer, [tf.constant(0), tf.constant(0)])[1], name="total")

    def collatz(k, count):
        return tf.cond(tf.equal(k % 2, 0), lambda: k // 2, lambda: 3 * k + 1), count + 1

    tf.identity(tf.while_loop(lambda k, c: k > 1, collatz, [n, tf.constant(0)])[1], name="collatz")

    def append(i, v):
        return i + 1, tf.concat([v, [tf.cast(i, tf.float32) * x]], 0)

    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    grown = tf.while_loop(lambda i, v: i < n, append, [tf.constant(0), tf.zeros([0])], shape_invariants=shapes)[1]
    tf.identity(grown, name="grown")

    count_up = lambda: tf.while_loop(lambda i: i < n, lambda i: i + 2, [tf.constant(0)])
    tf.identity(tf.cond(x > 0.0, count_up, lambda: tf.constant(-1)), name="maybe")


with tf.Graph().as_default() as graph:
    build(tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.int32, [], name="n"))
    with open(sys.argv[1], "wb") as output:
        output.write(graph.as_graph_def().SerializeToString(deterministic=True))
    with tf.Session() as session:
        for x, n in ((2.0, 6), (12.0, 27), (-1.5, 0), (0.0, 1)):
            print(x, n, session.run(["y:0", "dy:0", "total:0", "collatz:0", "grown:0", "maybe:0"], {"x:0": x, "n:0": n}))
