"""Programs of TensorFlow 1 read reference variables after updates, in branches, loops and extensions of a session: the same on `weir serve`.

usage: stale_reads_interop_test.py WEIR EMPTY_DIRECTORY
"""
import itertools
import sys

from two_sessions import compare

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
raw = tf.raw_ops
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


def run_once(session, model):
    return run(1)(session, model)[0]


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


def count_to(n):
    """A number that a loop makes, slowly enough for a read that does not wait for it."""
    grown = v1.while_loop(lambda i, total: i < n, lambda i, total: (i + 1, total + 1.0), [tf.constant(0), tf.constant(0.0)])
    return grown[1]


def test_a_fetched_variable_has_the_updates_behind_loops_and_conditionals(server):
    counts = (
        lambda: count_to(50),
        lambda: v1.cond(tf.constant(True), lambda: count_to(50), lambda: tf.constant(1.0)),
        lambda: v1.cond(tf.constant(False), lambda: count_to(50), lambda: tf.constant(1.0)) + count_to(20),
        lambda: v1.while_loop(lambda i, total: i < 3, lambda i, total: (i + 1, total + v1.cond(i < 1, lambda: count_to(9), lambda: 1.0)),
                              [tf.constant(0), tf.constant(0.0)])[1],
        lambda: v1.cond(tf.constant(True), lambda: v1.cond(tf.constant(False), lambda: 1.0, lambda: count_to(30)), lambda: 1.0),
    )

    def build():
        pairs = []
        for count in counts:
            v = variable(0.0)
            pairs.append((v, v1.assign_add(v, count()).op))
        return pairs

    def steps(session, pairs):
        session.run(v1.global_variables_initializer())
        return [session.run(pair)[0] for _ in range(5) for pair in pairs]

    assert values_of(compare(server, build, steps))[:3] == [50, 50, 21]


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


def test_a_fetch_of_what_shares_the_buffer_has_the_updates(server):
    def build():
        fetches = []
        for view in (v1.identity, lambda v: v.value(), lambda v: v.read_value(), lambda v: tf.reshape(v, [2, 1]), lambda v: tf.expand_dims(v, 0),
                     lambda v: tf.identity(tf.identity(v)), lambda v: tf.squeeze(tf.reshape(v, [1, 2, 1])), lambda v: v + 0.0):
            v = variable([1.0, 2.0])
            seen = view(v)
            with tf.control_dependencies([seen]):
                late = v1.assign(v, [8.0, 9.0])
            with tf.control_dependencies([late]):
                fetches += [seen, late, seen * 2.0]
        v = variable([1.0, 2.0])
        with tf.control_dependencies([v1.assign_add(v, [1.0, 1.0])]):
            between = v.read_value()
        return fetches + [between, v1.assign(v, between * 10.0)]

    found = values_of(compare(server, build, run_once))
    assert found[0] == [8, 9] and found[9] == [[8], [9]] and found[21] == [1, 2] and found[-2] == [20, 30], found


def test_a_fetch_keeps_the_buffer_that_the_variable_has_no_more(server):
    def build():
        v = v1.Variable([1.0, 2.0], use_resource=False, validate_shape=False, name="v%d" % next(NUMBERS))
        seen = tf.identity(v)
        with tf.control_dependencies([seen]):
            return [seen, v1.assign(v, [7.0, 8.0, 9.0], validate_shape=False)]

    assert values_of(compare(server, build, run_once)) == [[1, 2], [7, 8, 9]]


def attrs_of(op, dtype, shape):
    """Values of the attrs that have no default and that the input does not determine."""
    samples = {"int": 1, "float": 1.0, "bool": True, "type": dtype, "shape": shape, "string": "m", "list(int)": [1] * len(shape)}
    given = (op.input_arg[0].type_attr, op.input_arg[0].number_attr)
    return {attr.name: samples.get(attr.type) for attr in op.attr if not attr.HasField("default_value") and attr.name not in given}


def seen_after_an_update(name, dtype, shape):
    """What an op of one reference variable gives, as a node sees it that runs after an update; None where no call was found."""
    op = op_def_registry.get(name)
    value = np.resize([0.5, 0.125, 0.125, 0.25], shape) if dtype.is_floating else np.ones(shape)
    v = variable(value.astype(dtype.as_numpy_dtype))
    result = getattr(raw, name)(**{op.input_arg[0].name: v, **attrs_of(op, dtype, shape)})
    alike = [output for output in tf.nest.flatten(result) if output.dtype == dtype]
    if not alike:
        return None
    with tf.control_dependencies(alike):
        update = v1.assign_add(v, np.full(shape, 0.125 if dtype.is_floating else 4, dtype.as_numpy_dtype))
    with tf.control_dependencies([update]):
        return [tf.identity(output) for output in alike]


def values_or_text(session, fetches):
    try:
        return session.run(fetches)
    except tf.errors.OpError as error:
        return error.message


def takes_one_tensor(name):
    op = op_def_registry.get(name)
    if op is None or op.is_stateful or len(op.input_arg) != 1 or not op.output_arg:
        return False
    argument = op.input_arg[0]
    has_kernel = any(kernel.device_type == "CPU" for kernel in kernels.get_registered_kernels_for_op(name).kernel)
    return has_kernel and bool(argument.type_attr) and not argument.number_attr and not argument.is_ref


def test_each_op_of_one_tensor_gives_its_buffer_or_a_copy_as_in_tensorflow(server):
    """Finds the op that belongs into PassageOf (graph/interchange/references.cc) and is missing there, or is there and copies."""
    fetches_of = {}

    def build():
        for name in filter(takes_one_tensor, dir(raw)):
            for dtype, shape in itertools.product((tf.float32, tf.int32), ([2, 2], [1, 2, 2, 1])):
                try:
                    fetches = seen_after_an_update(name, dtype, shape)
                except (TypeError, ValueError, NotImplementedError):  # the last one: ops that TensorFlow has taken back
                    continue
                if fetches is not None:
                    fetches_of[name] = fetches
                    break
        return list(fetches_of.values())

    results = []
    for target in ("", server.target()):
        with tf.Graph().as_default():
            build()
            with v1.Session(target) as session:
                session.run(v1.global_variables_initializer())
                results.append({name: values_or_text(session, fetches) for name, fetches in fetches_of.items()})
    in_tensorflow, here = results
    # A client may feed it: what reads behind it must not go past it to the variable.
    del in_tensorflow["PlaceholderWithDefault"]
    compared = [name for name in in_tensorflow if not isinstance(in_tensorflow[name], str) and "Op type not registered" not in str(here[name])]
    for name in compared:
        assert not isinstance(here[name], str), (name, here[name])
        for expected, found in zip(in_tensorflow[name], here[name]):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=name)
    assert len(compared) > 80, compared


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
