"""v1 loops of TensorFlow's clients whose nodes are on several tasks of `weir serve`, and their gradients: they give what TensorFlow's own session
gives for the same graph without devices.

usage: loops_interop_test.py WEIR EMPTY_DIRECTORY
"""
import contextlib
import sys

from two_sessions import numbers

import numpy as np
import tensorflow as tf

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_control_flow_v2()

PS, WORKER0, WORKER1 = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


def compare(cluster, build, steps):
    """`build(on)` makes the model, `on(device)` is a context; `steps(session, model)` gives values."""
    results = []
    for target in ("", cluster.target("worker")):
        on = tf.device if target else lambda device: contextlib.nullcontext()
        with tf.Graph().as_default(), on(WORKER0):
            model = build(on)
            with v1.Session(target) as session:
                results.append(steps(session, model))
    expected, found = results
    assert len(expected) == len(found)
    for i, (e, f) in enumerate(zip(expected, found)):
        np.testing.assert_allclose(f, e, rtol=2e-5, atol=1e-5, err_msg="value %d" % i)


def test_a_body_on_several_tasks(cluster):
    def build(on):
        n = v1.placeholder(tf.int32, [])

        def body(i, x, y):
            with on(PS):
                x = x * 0.5 + tf.cast(i, tf.float32)
            with on(WORKER1):
                y = y + tf.reduce_sum(x)
            return i + 1, x, y

        return n, tf.while_loop(lambda i, x, y: i < n, body, [0, tf.constant(numbers(3)), 0.0])

    def steps(session, model):
        n, outputs = model
        return [value for count in (0, 1, 7, 100, 0) for value in session.run(outputs, {n: count})]

    compare(cluster, build, steps)


def test_a_function_called_in_a_body_has_its_effects_once_an_iteration(cluster):
    """What does not change, n, is there in the iteration whose condition is false, too."""

    def build(on):
        k, n = v1.placeholder(tf.int32, []), v1.placeholder(tf.float32, [])
        v = v1.get_variable("called", initializer=0.0, use_resource=True)

        @tf.function
        def add(n, i):
            v.assign_add(n)
            v.assign_add(0.25)
            return i + 1

        @tf.function
        def twice(i, n):
            return tf.cond(n > 0.0, lambda: add(n, i), lambda: i + 1)

        loops = [tf.while_loop(lambda i: i < k, lambda i, f=f: f(i), [0]) for f in (lambda i: add(n, i), lambda i: twice(i, n))]
        return k, n, v, loops

    def steps(session, model):
        k, n, v, loops = model
        session.run(v.initializer)
        return [value for loop in loops for count in (3, 0, 1) for value in (session.run(loop, {k: count, n: 1.0}), session.run(v))]

    compare(cluster, build, steps)


def test_variables_of_the_ps_in_a_body(cluster):
    for use_resource in (False, True):

        def build(on):
            with on(PS):
                w = v1.get_variable("w", initializer=numbers(4, 4), use_resource=use_resource)
                total = v1.get_variable("total", initializer=0.0, use_resource=use_resource)

            def body(i, x):
                x = tf.tanh(tf.matmul(x, w))
                with tf.control_dependencies([v1.assign_add(total, tf.reduce_sum(x))]):
                    return i + 1, tf.identity(x)

            loop = tf.while_loop(lambda i, x: i < 20, body, [0, tf.constant(numbers(2, 4, seed=2))])
            return loop, total, v1.global_variables_initializer()

        def steps(session, model):
            loop, total, init = model
            session.run(init)
            return [value for _ in range(3) for value in [*session.run(loop), session.run(total)]]

        compare(cluster, build, steps)


def test_gradients_of_a_loop(cluster):
    """The stacks are beside what they keep, on three tasks."""

    def build(on):
        n = v1.placeholder(tf.int32, [])
        with on(PS):
            w = v1.get_variable("w", initializer=numbers(4, 4), use_resource=True)
        with on(WORKER1):
            b = v1.get_variable("b", initializer=numbers(4, seed=3), use_resource=True)

        def body(i, x):
            with on(PS):
                y = tf.matmul(x, w)
            with on(WORKER1):
                y = tf.tanh(y + b)
            return i + 1, y * 0.5 + x * 0.5

        x = tf.constant(numbers(2, 4, seed=2))
        loss = tf.reduce_sum(tf.square(tf.while_loop(lambda i, x: i < n, body, [0, x])[1]))
        gradients = v1.gradients(loss, [w, b, x])
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        return n, [loss] + gradients, train, w, v1.global_variables_initializer()

    def steps(session, model):
        n, values, train, w, init = model
        session.run(init)
        found = []
        for count in (0, 1, 2, 30):
            found += session.run(values, {n: count})
            session.run(train, {n: count})
            found.append(session.run(w))
        return found

    compare(cluster, build, steps)


def test_conditionals_and_loops_in_a_loop_with_gradients(cluster):
    def build(on):
        with on(PS):
            w = v1.get_variable("w", initializer=numbers(3), use_resource=True)

        def inner_body(j, x):
            with on(WORKER1):
                return j + 1, tf.tanh(x * w) + 0.1

        def inner(i, x):
            return tf.while_loop(lambda j, x: j < i, inner_body, [0, x])[1]

        def other(x):
            with on(PS):
                return tf.sin(x) * w

        def body(i, x):
            return i + 1, tf.cond(tf.equal(i % 3, 1), lambda: inner(i, x), lambda: other(x))

        result = tf.while_loop(lambda i, x: i < 8, body, [0, tf.constant(numbers(3, seed=4))])[1]
        return [result] + v1.gradients(result, [w]), v1.global_variables_initializer()

    def steps(session, model):
        values, init = model
        session.run(init)
        return [value for _ in range(3) for value in session.run(values)]

    compare(cluster, build, steps)


def test_a_recurrent_network_trains_with_its_variables_on_the_ps(cluster):
    """Arrays of tensors, and gradients of variables that the loop reads in every iteration."""

    def build(on):
        place = v1.train.replica_device_setter(ps_tasks=1, worker_device=WORKER0)
        with v1.device(place) if on is tf.device else contextlib.nullcontext():
            x = tf.constant(numbers(2, 5, 3))
            cells = [v1.get_variable(name, initializer=numbers(7, 4, seed=i), use_resource=False)
                     for i, name in enumerate(("gate", "value"))]
            inputs = v1.TensorArray(tf.float32, 5).unstack(tf.transpose(x, [1, 0, 2]))
            outputs = v1.TensorArray(tf.float32, 5)

            def body(t, h, outputs):
                with on(WORKER1):
                    row = tf.concat([tf.identity(inputs.read(t)), h], 1)
                gate, value = (tf.matmul(row, cell) for cell in cells)
                h = tf.sigmoid(gate) * h + (1 - tf.sigmoid(gate)) * tf.tanh(value)
                return t + 1, h, outputs.write(t, h)

            _, h, outputs = tf.while_loop(lambda t, *_: t < 5, body, [0, tf.zeros([2, 4]), outputs])
            loss = tf.reduce_sum(tf.square(outputs.stack())) + tf.reduce_sum(h)
            train = v1.train.GradientDescentOptimizer(0.05).minimize(loss)
        return loss, train, cells, v1.global_variables_initializer()

    def steps(session, model):
        loss, train, cells, init = model
        session.run(init)
        found = []
        for _ in range(5):
            found.append(session.run([loss, train])[0])
        return found + session.run(cells)

    compare(cluster, build, steps)


if __name__ == "__main__":
    with WeirServers(sys.argv[1], {"ps": 1, "worker": 2}) as servers:
        sys.exit(cases.run(globals(), lambda case, name: case(servers)))
