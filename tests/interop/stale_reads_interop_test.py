"""Programs of TensorFlow 1 read reference variables after updates, in branches, loops and extensions of a session: the same on `weir serve`.

usage: stale_reads_interop_test.py WEIR EMPTY_DIRECTORY
"""
import itertools
import sys

from two_sessions import compare

import numpy as np
import tensorflow as tf

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_resource_variables()
v1.disable_control_flow_v2()
NUMBERS = itertools.count()


def variable(value):
    # Sessions of one server share variables of the same name.
    return v1.Variable(value, use_resource=False, name="v%d" % next(NUMBERS))


def run(count):
    """Steps that initialize the variables, and run the model so often."""

    def steps(session, model):
        session.run(v1.global_variables_initializer())
        return [session.run(model) for _ in range(count)]

    return steps


def values_of(compared):
    return [np.asarray(value).tolist() for value in compared]


def test_a_branch_sees_its_updates(server):
    def build():
        v = variable([1.0, 2.0])

        def update():
            with tf.control_dependencies([v1.assign_add(v, [10.0, 10.0])]):
                return tf.identity(v)

        return v1.cond(tf.constant(True), update, lambda: tf.identity(v))

    assert values_of(compare(server, build, run(2))) == [[11, 12], [21, 22]]


def test_a_branch_that_is_not_taken_changes_and_gives_nothing(server):
    def build():
        v = variable([1.0, 2.0])

        def update(by):
            with tf.control_dependencies([v1.assign_add(v, [by, by])]):
                return v * 2.0

        return v1.cond(v1.assign_add(v, [1.0, 1.0])[0] > 2.5, lambda: update(10.0), lambda: update(0.25))

    assert values_of(compare(server, build, run(3))) == [[4.5, 6.5], [26.5, 28.5], [48.5, 50.5]]


def test_a_branch_in_a_loop_sees_its_updates(server):
    def build():
        v = variable([1.0, 2.0])

        def update():
            with tf.control_dependencies([v1.assign_add(v, [10.0, 10.0])]):
                return v * 2.0

        body = lambda i, total: (i + 1, total + v1.cond(tf.equal(i % 2, 0), update, lambda: v * 100.0))
        return v1.while_loop(lambda i, total: i < 3, body, [tf.constant(0), tf.zeros([2])], parallel_iterations=1)[1]

    compare(server, build, run(2))


def test_a_loop_ends_when_its_variable_says_so(server):
    def build():
        v = variable(0)

        def body(i):
            with tf.control_dependencies([v1.assign_add(v, 1)]):
                return i + 1

        # The bound on the number of iterations keeps a stale read from going on for ever.
        return v1.while_loop(lambda i: (v < 3) & (i < 50), body, [tf.constant(0)], parallel_iterations=1)

    assert values_of(compare(server, build, run(1))) == [3]


def test_a_loop_in_a_branch_sees_its_updates(server):
    def build():
        v = variable(0)

        def body(i):
            with tf.control_dependencies([v1.assign_add(v, 1)]):
                return i + 1

        loop = lambda: v1.while_loop(lambda i: (v < 5) & (i < 50), body, [tf.constant(0)], parallel_iterations=1)
        return v1.cond(v < 5, loop, lambda: tf.constant(-1))

    assert values_of(compare(server, build, run(2))) == [5, -1]


def test_what_shares_the_buffer_sees_updates(server):
    def build():
        v = variable([1.0, 2.0])
        views = [tf.stop_gradient(v), tf.raw_ops.PreventGradient(input=v), tf.raw_ops.CheckNumerics(tensor=v, message="m"),
                 tf.reshape(v, [2, 1]), tf.expand_dims(v, 0), tf.squeeze(tf.reshape(v, [1, 2, 1])), tf.ensure_shape(v, [2])]
        views.append(tf.raw_ops.Snapshot(input=v))  # a copy
        with tf.control_dependencies(views):
            update = v1.assign_add(v, [10.0, 10.0])
        with tf.control_dependencies([update]):
            return [view * 1.0 for view in views]

    def steps(session, model):
        return [value for values in run(2)(session, model) for value in values]

    found = values_of(compare(server, build, steps))
    assert found[0] == [11, 12] and found[3] == [[11], [12]] and found[7] == [1, 2], found


def test_an_extended_session_sees_updates(server):
    def steps(session, v):
        values = []
        session.run(v.initializer)
        with tf.control_dependencies([v1.assign_add(v, [10.0, 10.0])]):
            read = tf.identity(v)
        values.append(session.run(read))
        update = v1.assign_add(v, [100.0, 100.0])
        view = tf.reshape(tf.identity(v), [2, 1])
        session.run([update, view])
        # What is added then takes no reference.
        with tf.control_dependencies([update]):
            later = [v * 2.0, view * 2.0]
        values += session.run(later)
        return values

    assert values_of(compare(server, lambda: variable([1.0, 2.0]), steps))[0] == [11, 12]


def test_devices_that_may_be_the_same(server):
    def build():
        with tf.device("/cpu:0"):
            placed = variable([1.0, 2.0])
        anywhere = variable([3.0, 4.0])
        with tf.control_dependencies([v1.assign_add(placed, [10.0, 10.0]), v1.assign_add(anywhere, [10.0, 10.0])]):
            values = [tf.identity(placed)]
            with tf.device("/device:CPU:0"):
                values += [tf.identity(anywhere) * 1.0, anywhere * 1.0, placed * 1.0]
        return tf.concat(values, 0)

    assert values_of(compare(server, build, run(1))) == [[11, 12, 13, 14, 13, 14, 11, 12]]


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
