"""Graphs with functions on `weir serve`: tf.function, calls, If, Case and While give what TensorFlow's own session gives.

usage: functions_interop_test.py WEIR EMPTY_DIRECTORY
"""
import sys

from two_sessions import compare, error_of, numbers

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import function

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.enable_control_flow_v2()
v1.enable_resource_variables()


def test_a_function_is_called(server):
    def build():
        x = v1.placeholder(tf.float32, [None], "x")

        @tf.function
        def inner(a, b):
            return a * b + 1.0, tf.split(a, 2)

        @tf.function
        def outer(a):
            product, (first, second) = inner(a, a + 2.0)
            return product, first - second

        y, z = outer(x)
        return x, y, z, v1.gradients(y, x)[0]

    def steps(session, model):
        x, y, z, gradient = model
        data = numbers(6)
        # An output of the call is fetched, both are, and one is fed.
        return [session.run(y, {x: data})] + session.run([y, z, gradient], {x: data}) + [session.run(y * 2.0, {y: [1.0, 2.0]})]

    compare(server, build, steps)


def test_conditions_that_are_no_bool(server):
    """A number is true when it is not 0, a text when it is not empty, a tensor with dimensions when it has elements."""
    conditions = [np.int32(0), np.int32(-2), np.float64(0.0), np.float32("nan"), np.uint8(1), b"", b"no", np.zeros(0, np.int64), np.zeros(1, np.float16)]

    def build():
        x = v1.placeholder(tf.float32, [], "x")

        @function.Defun(tf.float32)
        def doubled(a):
            return a * 2.0

        @function.Defun(tf.float32)
        def negative(a):
            return -a

        chosen = [tf.raw_ops.If(cond=v1.placeholder_with_default(condition, np.shape(condition)), input=[x], Tout=[tf.float32], then_branch=doubled, else_branch=negative)[0]
                  for condition in conditions]

        for dtype in (tf.int32, tf.float32, tf.string):
            @function.Defun(tf.int32, tf.float32)
            def goes_on(i, unused):
                return tf.strings.substr("abc", i, 3) if dtype == tf.string else tf.cast(3 - i, dtype)

            @function.Defun(tf.int32, tf.float32)
            def body(i, a):
                return i + 1, a * 2.0

            for loop in (tf.raw_ops.While, tf.raw_ops.StatelessWhile):
                chosen += loop(input=[tf.constant(0), x], cond=goes_on, body=body)
        return x, chosen

    def steps(session, model):
        x, chosen = model
        return [value for number in (1.5, -2.0) for value in session.run(chosen, {x: number})]

    compare(server, build, steps)


def test_effects_of_a_call_happen_whether_or_not_its_outputs_are_used(server):
    def build():
        v = v1.get_variable("effects", initializer=1.0)

        @tf.function
        def add(x):
            v.assign_add(x)
            v.assign(v * 2.0)
            return x + 1.0, v.read_value()

        plain, _ = add(tf.constant(3.0))
        with tf.control_dependencies([plain]):
            after = v.read_value()
        return v, plain, after

    def steps(session, model):
        v, plain, after = model
        session.run(v.initializer)
        values = [session.run(plain), session.run(v), session.run(after), session.run(v)]
        session.run(plain.op)
        return values + [session.run(v)]

    assert compare(server, build, steps)[1] == 8.0


def test_control_edges_into_and_out_of_calls(server):
    def build():
        v = v1.get_variable("edges", initializer=1.0)

        @tf.function
        def constant():
            return tf.constant(5.0)

        @tf.function
        def read():
            return v.read_value()

        with tf.control_dependencies([v.assign_add(1.0)]):
            c = constant()
            r = read()
        with tf.control_dependencies([c]):
            return v, tf.identity(r)

    def steps(session, model):
        v, r = model
        session.run(v.initializer)
        return [session.run(r), session.run(r), session.run(v)]

    assert compare(server, build, steps)[1] == 3.0


def test_an_output_of_a_call_needs_only_what_it_is_made_of(server):
    def build():
        a = v1.placeholder(tf.float32, [], "a")
        b = v1.placeholder(tf.float32, [], "b")

        @tf.function
        def both(x, y):
            return x + 1.0, y + 1.0

        @tf.function
        def twice(x, y):
            return both(*both(x, y))

        @function.Defun(tf.float32, tf.float32)
        def defined(x, y):
            return x * 2.0, y * 3.0

        chosen = tf.cond(tf.constant(True), lambda: (a * 2.0, b), lambda: (a, b * 2.0))
        return a, both(a, b), twice(a, b), defined(a, b), chosen

    def steps(session, model):
        a, *calls = model
        return [session.run(first * 2.0, {a: 1.0}) for first, _ in calls]

    compare(server, build, steps)


def test_effects_of_a_call_of_which_one_output_is_needed(server):
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        v = v1.get_variable("counted", initializer=1.0)
        w = v1.get_variable("returned", initializer=1.0)

        @tf.function
        def counted(a):
            v.assign_add(1.0)
            return a * 2.0, w.assign_add(a)

        @tf.function
        def nested(a):
            first, second = counted(a)
            chosen = tf.cond(a > 2.0, lambda: (first, w.assign_add(100.0)), lambda: (a, v.assign_add(10.0)))
            return chosen[0], second

        @function.Defun(tf.float32)
        def defined(a):
            return a * 3.0, w.assign_add(a)

        branches = tf.cond(x > 2.0, lambda: (x * 2.0, w.assign_add(10.0)), lambda: (counted(x)[0], v.assign_add(20.0)))
        not_taken = tf.cond(x > 2.0, lambda: counted(x)[0], lambda: x)
        loop = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, counted(a)[0]), [0, x])
        backwards = tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a * 2.0, counted(b)[1]), [0, x, x])
        firsts = [counted(x)[0], nested(x)[0], defined(x)[0], branches[0], not_taken, loop[1], loop[0], backwards[1]]
        return x, v, w, [first * 2 for first in firsts]

    def steps(session, model):
        x, v, w, fetches = model
        values = []
        for at in (1.0, 3.0):
            for fetch in fetches:
                session.run([v.initializer, w.initializer])
                values += [session.run(fetch, {x: at}), session.run(v), session.run(w)]
        return values

    compare(server, build, steps)


def test_functions_are_called_by_their_names(server):
    def build():
        x = v1.placeholder(tf.float32, [None], "x")

        @function.Defun(tf.float32, tf.float32)
        def squares(a, b):
            return a * a, b * b + a

        @function.Defun(tf.float32)
        def nested(a):
            p, q = squares(a, a + 1.0)
            return p - q

        return x, squares(x, x)[1], nested(x)

    compare(server, build, lambda session, model: session.run(list(model[1:]), {model[0]: numbers(5)}))


def test_branches(server):
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        n = v1.placeholder(tf.int32, [], "n")
        v = v1.get_variable("branches", initializer=1.0)
        y = tf.cond(x > 0, lambda: x * 2.0, lambda: x - 1.0)
        outside = x * 3.0
        z, w = tf.cond(x > 0, lambda: (outside, tf.constant(7)), lambda: (tf.cond(x < -2.0, lambda: outside * x, lambda: 0.5), tf.constant(8)))
        update = tf.cond(x > 0, lambda: v.assign_add(10.0).op, lambda: tf.no_op())
        case = tf.switch_case(n, [lambda: x, lambda: x * x, lambda: -x])
        return x, n, v, y, z, w, case, update

    def steps(session, model):
        x, n, v, y, z, w, case, update = model
        session.run(v.initializer)
        values = []
        for at in (3.0, -1.0, -3.0):
            for index in (0, 1, 2, 9, -1):
                values += session.run([y, z, w, case], {x: at, n: index})
            session.run(update, {x: at})
            values.append(session.run(v))
        return values

    compare(server, build, steps)


def test_a_branch_that_is_not_taken_does_not_fail(server):
    def build():
        x = v1.placeholder(tf.float32, [], "x")

        @tf.function
        def checked(a):
            with tf.control_dependencies([v1.assert_greater(a, 0.0)]):
                return tf.sqrt(a)

        return x, tf.cond(x > 0, lambda: checked(x), lambda: -x), checked(x)

    def steps(session, model):
        x, guarded, checked = model
        assert isinstance(error_of(lambda: session.run(checked, {x: -4.0})), tf.errors.InvalidArgumentError)
        return [session.run(guarded, {x: 4.0}), session.run(guarded, {x: -4.0}), session.run(checked, {x: 9.0})]

    compare(server, build, steps)


def test_loops(server):
    def build():
        n = v1.placeholder(tf.int32, [], "n")
        w = v1.get_variable("w", initializer=numbers(3, 3))
        count = v1.get_variable("count", initializer=0)
        _, factorial = tf.while_loop(lambda i, a: i <= n, lambda i, a: (i + 1, a * tf.cast(i, tf.float32)), [1, 1.0])
        # An argument of the body that never changes, a variable's handle, another loop and a branch inside.
        x = tf.ones([2, 3])

        def inner(i, h):
            _, s = tf.while_loop(lambda j, s: j < i, lambda j, s: (j + 1, s + tf.cond(j > 1, lambda: 2.0, lambda: 1.0)), [0, 0.0])
            return i + 1, tf.tanh(tf.matmul(h, w) + x) + s

        _, h = tf.while_loop(lambda i, h: i < n, inner, [0, x])

        def body(i):
            with tf.control_dependencies([count.assign_add(i)]):
                return i + 1

        last = tf.while_loop(lambda i: i < n, body, [0], maximum_iterations=4)
        return n, w, count, factorial, h, last

    def steps(session, model):
        n, w, count, factorial, h, last = model
        session.run([w.initializer, count.initializer])
        values = []
        for k in (0, 1, 3, 6):
            values += session.run([factorial, h], {n: k}) + [session.run(last, {n: k}), session.run(count)]
        return values

    compare(server, build, steps)


def test_loops_of_autograph(server):
    def build():
        x = v1.placeholder(tf.float32, [], "x")

        @tf.function
        def f(a, b):
            if a > b:
                a = a - b
            for _ in tf.range(3):
                if a > 10.0:
                    break
                a += 1.0
            return a * b

        return x, f(x, 2.0)

    compare(server, build, lambda session, model: [session.run(model[1], {model[0]: at}) for at in (1.0, 5.0, 20.0)])


def test_a_session_gains_functions(server):
    def build():
        return v1.placeholder(tf.float32, [], "x")

    def steps(session, x):
        values = [session.run(x + 1.0, {x: 1.0})]
        for i in range(3):
            y = tf.function(lambda a: a * float(i + 2))(x)
            values += [session.run(y, {x: 1.0}), session.run(tf.cond(x > 0, lambda: y, lambda: -y), {x: -1.0})]
        return values

    compare(server, build, steps)


def test_training_through_functions(server):
    def build():
        x = v1.placeholder(tf.float32, [None, 4], "x")
        w = v1.get_variable("w", initializer=numbers(4, 1))

        @tf.function
        def loss(data):
            return tf.reduce_mean(tf.square(tf.matmul(data, w) - 1.0))

        value = loss(x)
        step = v1.train.get_or_create_global_step()
        train = v1.train.AdamOptimizer(0.05).minimize(value, global_step=step)
        return x, w, value, train, v1.global_variables_initializer()

    def steps(session, model):
        x, w, loss, train, init = model
        session.run(init)
        values = [session.run([loss, train], {x: numbers(16, 4, seed=5)})[0] for _ in range(10)]
        assert values[-1] < values[0]
        return values + [session.run(w)]

    compare(server, build, steps)


def test_a_function_that_calls_itself_is_refused_and_the_rest_runs(server):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [], "x")

        @function.Defun(tf.float32)
        def f(a):
            return a + 1.0

        y = f(x)
        definition = graph.as_graph_def()
    name = definition.library.function[0].signature.name
    body = definition.library.function[0]
    body.node_def.add(name="again", op=name, input=["a"])
    body.ret[next(iter(body.ret))] = "again:%s:0" % body.signature.output_arg[0].name
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="")
        with v1.Session(server.target()) as session:
            error = error_of(lambda: session.run(y.name, {"x:0": 1.0}))
            assert isinstance(error, tf.errors.InvalidArgumentError) and "calls itself" in error.message, error
            assert session.run(tf.constant(2.0) * 3.0) == 6.0


def test_a_loop_runs_for_its_effects(server):
    def build():
        v = v1.Variable(1.0, use_resource=True)
        arguments = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.resource)]

        @tf.function(input_signature=arguments)
        def goes_on(i, n, handle):
            return i < 3

        @tf.function(input_signature=arguments)
        def body(i, n, handle):
            tf.raw_ops.AssignAddVariableOp(resource=handle, value=n)
            return i + 1, n, handle

        functions = {name: function.get_concrete_function() for name, function in dict(cond=goes_on, body=body).items()}
        for function in functions.values():
            function.add_to_graph(tf.compat.v1.get_default_graph())
        loop = tf.raw_ops.While(input=[tf.constant(0), tf.constant(10.0), v.handle], output_shapes=[[], [], []],
                                parallel_iterations=10, **functions)
        return v, loop[1]

    def steps(session, model):
        v, unchanged = model
        session.run(v.initializer)
        return [session.run(unchanged), session.run(v)]

    assert [float(value) for value in compare(server, build, steps)] == [10.0, 31.0]


def test_what_an_inner_loop_hands_on_is_there_in_its_iteration_only(server):
    def build():
        y = v1.placeholder(tf.float32, [])
        v = v1.get_variable("in_iterations", initializer=0.0)

        def body(i):
            _, unchanged = tf.while_loop(lambda j, q: j < 3, lambda j, q: (j + 1, q), [0, y])
            with tf.control_dependencies([v.assign_add(unchanged)]):
                return i + 1

        return y, v, tf.while_loop(lambda i: i < 2, body, [0])

    def steps(session, model):
        y, v, loop = model
        session.run(v.initializer)
        return [session.run(loop, {y: 1.0}), session.run(v)]

    assert compare(server, build, steps)[1] == 2.0


def test_a_loop_waits_for_what_comes_before_whichever_result_is_used(server):
    def build():
        x = v1.placeholder(tf.float32, [])
        v = v1.get_variable("before_the_loop", initializer=0.0)
        with tf.control_dependencies([v.assign_add(1.0)]):
            results = tf.while_loop(lambda i, q: i < 3, lambda i, q: (i + 1, q), [0, x])
        return x, v, results

    def steps(session, model):
        x, v, results = model
        session.run(v.initializer)
        return [session.run(results[1], {x: 7.0}), session.run(v)]

    assert [float(value) for value in compare(server, build, steps)] == [7.0, 1.0]


def test_a_remote_call_in_a_branch_that_is_not_taken(server):
    def build():
        p = v1.placeholder(tf.bool, [])
        v = v1.get_variable("remotely", initializer=0.0)

        @function.Defun(tf.resource)
        def add(handle):
            with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.constant(1.0))]):
                return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)

        def call():
            return tf.raw_ops.RemoteCall(target="/cpu:0", args=[v.handle], Tout=[tf.float32], f=add)[0]

        return p, v, tf.cond(p, call, lambda: tf.constant(-5.0))

    def steps(session, model):
        p, v, y = model
        session.run(v.initializer)
        return [value for taken in (False, True, False) for value in (session.run(y, {p: taken}), session.run(v))]

    assert [float(value) for value in compare(server, build, steps)] == [-5.0, 0.0, 1.0, 1.0, -5.0, 1.0]


def test_errors_name_the_node_of_the_function(server):
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, None, "x")
        y = tf.function(lambda a: tf.linalg.matmul(a, a, name="product"))(x)
        with v1.Session(server.target()) as session:
            error = error_of(lambda: session.run(y, {x: numbers(2, 3)}))
            assert isinstance(error, tf.errors.InvalidArgumentError) and "product}}" in error.message, error


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
