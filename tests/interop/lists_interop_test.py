"""Lists, optionals, stacks and arrays of tensors on `weir serve`: the gradients of branches and loops, and what the ops give and refuse, as in TensorFlow's own session.

usage: lists_interop_test.py WEIR EMPTY_DIRECTORY
"""
import sys

from two_sessions import compare, compare_each, numbers

import tensorflow as tf

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
ops = tf.raw_ops
v1.disable_eager_execution()
v1.enable_control_flow_v2()
v1.enable_resource_variables()
FLOAT = tf.float32


def test_gradients_of_branches(server):
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        v = v1.get_variable("slope", initializer=2.0)
        y = tf.cond(x > 0, lambda: tf.sin(x * v), lambda: x * x * v)
        return x, v, y, v1.gradients(y, [x, v])

    def steps(session, model):
        x, v, y, gradients = model
        session.run(v.initializer)
        return [value for at in (3.0, -3.0) for value in session.run([y] + gradients, {x: at})]

    compare(server, build, steps)


def recurrent(n, w, x):
    """A loop whose gradient needs what its iterations computed, with a branch inside."""

    def body(i, h):
        return i + 1, tf.cond(i < 2, lambda: tf.tanh(tf.matmul(h, w) + x), lambda: tf.sin(h) * w[0, 0])

    return tf.while_loop(lambda i, h: i < n, body, [0, tf.ones([2, 3])])[1]


def array_loop(n, x):
    array = tf.TensorArray(tf.float32, size=n, element_shape=[2], clear_after_read=False)
    array = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, x * tf.cast(i, tf.float32))), [0, array])[1]
    total = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + array.read(i) * array.read(i)), [0, tf.zeros([2])])[1]
    return array.stack(), array.gather([1, 0]), total


def gradients_of_loops(use_v2):
    def build():
        (v1.enable_control_flow_v2 if use_v2 else v1.disable_control_flow_v2)()
        try:
            n = v1.placeholder(tf.int32, [], "n")
            x = v1.placeholder(tf.float32, [2], "x")
            w = v1.get_variable("w", initializer=numbers(3, 3))
            h = recurrent(n, w, numbers(2, 3, seed=2))
            stacked, gathered, total = array_loop(n, x)
            mapped = tf.map_fn(lambda v: v * v + x, tf.reshape(tf.range(6.0), [3, 2]))
            outputs = [h, stacked, gathered, total, mapped]
            gradients = v1.gradients(h, w) + v1.gradients([stacked, gathered, total, mapped], x)
            return n, x, w, outputs + gradients
        finally:
            v1.enable_control_flow_v2()

    return build


def run_loops(session, model):
    n, x, w, values = model
    session.run(w.initializer)
    return [value for k in (2, 3, 6) for value in session.run(values, {n: k, x: [0.5, -2.0]})]


def test_gradients_of_loops(server):
    compare(server, gradients_of_loops(True), run_loops)


def test_gradients_of_loops_of_switch_and_merge(server):
    compare(server, gradients_of_loops(False), run_loops)


def test_second_gradients(server):
    def build():
        x = v1.placeholder(tf.float32, [], "x")
        y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * a + x), [0, x])[1]
        z = tf.cond(x > 0, lambda: x * x * x, lambda: x * x)
        first = v1.gradients(y + z, x)[0]
        return x, first, v1.gradients(first, x)[0]

    compare(server, build, lambda session, model: [value for at in (0.5, -0.5) for value in session.run(list(model[1:]), {model[0]: at})])


def test_lists_that_grow_and_elements_of_many_shapes(server):
    def build():
        n = v1.placeholder(tf.int32, [], "n")
        array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False)
        array = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, tf.ones([i + 1]) * tf.cast(i, tf.float32))), [0, array])[1]
        split = tf.TensorArray(tf.float32, size=2, infer_shape=False).split([1.0, 2.0, 3.0], [1, 2])
        unstacked = tf.TensorArray(tf.float32, size=2).unstack(numbers(2, 3)).stack()
        return n, [array.concat(), array.size(), split.read(1), unstacked]

    compare(server, build, lambda session, model: session.run(model[1], {model[0]: 3}))


def test_gradients_of_nested_loops(server):
    def build(use_v2):
        (v1.enable_control_flow_v2 if use_v2 else v1.disable_control_flow_v2)()
        try:
            x = v1.placeholder(tf.float32, [2, 3], "x")
            rows = tf.map_fn(lambda row: tf.map_fn(lambda e: e * e * e, row), x)
            sums = v1.scan(lambda a, row: a + v1.foldl(lambda b, e: b * e + a, row), x, initializer=tf.constant(0.5))
            powers = tf.while_loop(
                lambda i, s: i < 3,
                lambda i, s: (i + 1, tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, tf.while_loop(lambda k, u: k < 2, lambda k, u: (k + 1, u * x), [0, t])[1]), [0, s])[1]),
                [0, x])[1]
            values = [rows, sums, powers]
            return x, values + v1.gradients(rows, x) + v1.gradients(sums, x) + v1.gradients(powers, x)
        finally:
            v1.enable_control_flow_v2()

    for use_v2 in (True, False):
        compare(server, lambda: build(use_v2), lambda session, model: session.run(model[1], {model[0]: numbers(2, 3)}))


def test_a_call_with_a_variable_alone_in_a_branch_and_in_a_loop(server):
    def build():
        v1.disable_control_flow_v2()
        try:
            p = v1.placeholder(tf.bool, [], "p")
            n = v1.placeholder(tf.int32, [], "n")
            v = v1.get_variable("called", initializer=1.0)

            @tf.function
            def add():
                return v.assign_add(tf.constant(3.0))

            branch = v1.cond(p, lambda: add() * 1.0, lambda: tf.constant(-1.0))
            # One iteration at a time: else TensorFlow may read the variable when the next one has added to it.
            loop = v1.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + add()), [0, 0.0], parallel_iterations=1)[1]
            return p, n, v, branch, loop
        finally:
            v1.enable_control_flow_v2()

    def steps(session, model):
        p, n, v, branch, loop = model
        session.run(v.initializer)
        values = []
        for at in (True, False, True):
            values += [session.run(branch, {p: at}), session.run(v)]
        for count in (3, 0, 1):
            values += [session.run(loop, {n: count}), session.run(v)]
        return values

    compare(server, build, steps)


def array(size, **attrs):
    return ops.TensorArrayV3(size=size, dtype=FLOAT, **attrs)


def write(handle, index, value, flow):
    return ops.TensorArrayWriteV3(handle=handle, index=index, value=value, flow_in=flow)


def read(handle, index, flow):
    return ops.TensorArrayReadV3(handle=handle, index=index, flow_in=flow, dtype=FLOAT)


def scattered(size, indices, values):
    handle, flow = array(size)
    return handle, ops.TensorArrayScatterV3(handle=handle, indices=indices, value=tf.constant(values), flow_in=flow)


def split_of(size, lengths, **attrs):
    handle, flow = array(size, **attrs)
    flow = ops.TensorArraySplitV3(handle=handle, value=tf.constant([1.0, 2.0]), lengths=tf.constant(lengths, tf.int64), flow_in=flow)
    return ops.TensorArraySizeV3(handle=handle, flow_in=flow)


def read_unwritten(times, **attrs):
    handle, flow = array(2, **attrs)
    for _ in range(times):
        flow = read(handle, 0, flow)
    return flow


def written_after_a_read():
    handle, flow = array(2, clear_after_read=False)
    return write(handle, 0, 3.0, read(handle, 0, write(handle, 0, 2.0, flow)))


def popped_from_a_stack(max_size):
    """What was pushed. TensorFlow's rewrites drop pushes that nothing pops, and their limit."""
    some = ops.StackV2(max_size=max_size, elem_type=FLOAT)
    with tf.control_dependencies([ops.StackPushV2(handle=some, elem=1.0)]):
        return ops.StackPopV2(handle=some, elem_type=FLOAT)


def array_cases():
    all_of = scattered(3, [0, 1, 2], [1.0, 2.0, 3.0])
    some_of = scattered(3, [0, 1], [1.0, 2.0])
    return [
        read_unwritten(1, element_shape=[]),
        read_unwritten(1),
        read_unwritten(2, element_shape=[]),
        written_after_a_read(),
        split_of(2, [1, 1]),
        split_of(3, [1, 1]),
        split_of(1, [1, 1]),
        split_of(1, [1, 1], dynamic_size=True),
        split_of(2, [1, 2]),
        ops.TensorArraySizeV3(handle=some_of[0], flow_in=some_of[1]),
        scattered(3, [0, 0], [1.0, 2.0])[1],
        ops.TensorArrayGatherV3(handle=all_of[0], indices=[2, 0], flow_in=all_of[1], dtype=FLOAT),
        ops.TensorArrayConcatV3(handle=array(2)[0], flow_in=0.0, dtype=FLOAT)[0],
        popped_from_a_stack(max_size=0),
        popped_from_a_stack(max_size=1),
        popped_from_a_stack(max_size=-3),
        ops.StackPopV2(handle=ops.StackV2(max_size=-3, elem_type=FLOAT), elem_type=FLOAT),
    ]


def reserved(shape, length=2):
    return ops.TensorListReserve(element_shape=shape, num_elements=length, element_dtype=FLOAT)


def with_items(items, shape=-1, length=2):
    some = reserved(shape, length)
    for i, item in enumerate(items):
        some = ops.TensorListSetItem(input_handle=some, index=i, item=tf.constant(item))
    return some


def item(some, index, shape):
    return ops.TensorListGetItem(input_handle=some, index=index, element_shape=shape, element_dtype=FLOAT)


def stack(some, shape=-1):
    return ops.TensorListStack(input_handle=some, element_shape=shape, element_dtype=FLOAT)


def gather(some, indices):
    return ops.TensorListGather(input_handle=some, indices=tf.constant(indices, tf.int32), element_shape=-1, element_dtype=FLOAT)


def concat(some, shape, leading):
    result = ops.TensorListConcatV2(input_handle=some, element_shape=shape, leading_dims=tf.constant(leading, tf.int64), element_dtype=FLOAT)
    return [result.tensor, result.lengths]


def ragged_gradient(splits, shape):
    rows = ops.TensorListReserve(element_shape=tf.constant([], tf.int32), num_elements=3, element_dtype=tf.variant)
    one = ops.RaggedTensorToVariant(rt_nested_splits=[tf.constant([0, 1], tf.int64)], rt_dense_values=tf.constant([[7.0, 8.0]]), batched_input=True)
    rows = ops.TensorListSetItem(input_handle=rows, index=1, item=one[0])
    encoded = ops.TensorListStack(input_handle=rows, element_shape=tf.constant([], tf.int32), element_dtype=tf.variant, num_elements=3)
    return ops.RaggedTensorToVariantGradient(encoded_ragged_grad=encoded, row_splits=tf.constant(splits, tf.int64), dense_values_shape=shape, Tvalues=FLOAT)


def list_cases():
    one, two = [1.0, 2.0], [3.0]
    no_room = ops.EmptyTensorList(element_shape=-1, max_num_elements=1, element_dtype=FLOAT)
    pair = ops.TensorListScatterV2(tensor=tf.constant([1.0, 2.0]), indices=[0, 2], element_shape=tf.constant([], tf.int32), num_elements=5)
    twice = ops.TensorListScatterV2(tensor=tf.constant([1.0, 2.0]), indices=[0, 0], element_shape=tf.constant([], tf.int32), num_elements=-1)
    return [
        item(with_items([one]), 0, [7]),
        item(with_items([one]), 1, [7]),
        item(with_items([one]), 1, -1),
        item(with_items([]), 1, -1),
        item(with_items([one, two], length=3), 2, -1),
        item(with_items([one]), 2, -1),
        stack(with_items([one])),
        stack(with_items([one, two])),
        stack(with_items([])),
        stack(with_items([], length=0)),
        stack(with_items([one]), [3]),
        gather(with_items([one, two]), [0, 0]),
        gather(with_items([one, two]), [0, 1]),
        gather(with_items([one, two]), []),
        gather(with_items([one, two]), [2]),
        ops.TensorListLength(input_handle=ops.TensorListResize(input_handle=no_room, size=5)),
        ops.TensorListElementShape(input_handle=no_room, shape_type=tf.int32),
        ops.TensorListElementShape(input_handle=reserved([-1, 3]), shape_type=tf.int64),
        concat(reserved(-1, 1), [2, 3], [1]),
        concat(reserved([2, 3], 1), -1, []),
        concat(reserved([2, 3], 1), -1, [1]),
        concat(reserved([-1, 3], 1), -1, [2]),
        concat(reserved(-1, 2), [-1, 3], [1]),
        concat(with_items([[[1.0, 2.0]]]), -1, [9, 1]),
        concat(with_items([[[1.0, 2.0]]]), -1, []),
        concat(with_items([[[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]], length=3), -1, []),
        concat(with_items([[[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]], length=3), -1, [1, 2, 1]),
        concat(reserved(-1, 0), [-1, 3], []),
        concat(reserved(-1, 0), -1, []),
        stack(pair),
        stack(twice),
        stack(ops.TensorListFromTensor(tensor=tf.constant([one, one]), element_shape=[2])),
        stack(ops.TensorListConcatLists(input_a=with_items([one]), input_b=with_items([one]), element_dtype=FLOAT)),
        stack(ops.TensorListConcatLists(input_a=tf.stack([with_items([one])] * 2), input_b=tf.stack([with_items([]), with_items([one])]),
                                        element_dtype=FLOAT)[1]),
        stack(v1.add_n([with_items([one]), with_items([one, one]), reserved([2])])),
        stack(tf.zeros_like(with_items([one]))),
        ragged_gradient([0, 2, 3, 3], [3, 2]),
        ragged_gradient([0, 0, 1, 4], [4, 2]),
    ]


def test_what_arrays_and_stacks_give_and_refuse(server):
    compare_each(server, array_cases)


def test_what_lists_give_and_refuse(server):
    compare_each(server, list_cases)


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
