"""An unmodified TensorFlow client on `weir serve`: tf.compat.v1.Session("grpc://host:port") gives what TensorFlow's own session gives.

usage: session_interop_test.py WEIR EMPTY_DIRECTORY
"""
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

from two_sessions import compare, error_of, numbers

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import timeline

import cases
from weir_server import WeirServers, free_ports

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_control_flow_v2()


def test_variables(server):
    for use_resource in (False, True):

        def build():
            v = v1.get_variable("v%d" % use_resource, initializer=numbers(3, 4), use_resource=use_resource)
            return v, v1.assign_add(v, tf.ones([3, 4])), v * 2.0, v1.global_variables_initializer()

        def steps(session, model):
            v, add, twice, init = model
            session.run(init)
            values = [session.run(v), session.run(add), session.run(twice)]
            session.run(add.op if hasattr(add, "op") else add)
            return values + session.run([v, twice])

        compare(server, build, steps)


def test_a_fetched_reference_is_what_the_steps_update_made_of_it(server):
    def build():
        v = v1.get_variable("counted", initializer=numbers(3, 4), use_resource=False)
        add = v1.assign_add(v, tf.square(tf.square(tf.ones([3, 4]) * 1.5)))
        return v, add, v1.global_variables_initializer()

    def steps(session, model):
        v, add, init = model
        session.run(init)
        return [value for _ in range(5) for value in session.run([v, add])] + [session.run([v, add.op])[0], session.run(v)]

    compare(server, build, steps)


def mlp(use_resource):
    with v1.variable_scope("mlp%d" % use_resource, use_resource=use_resource):
        x = v1.placeholder(tf.float32, [None, 6], "x")
        y = v1.placeholder(tf.int32, [None], "y")
        w0 = v1.get_variable("w0", initializer=numbers(6, 16))
        b0 = v1.get_variable("b0", [16], initializer=v1.zeros_initializer())
        w1 = v1.get_variable("w1", initializer=numbers(16, 3, seed=2))
        hidden = tf.nn.relu(tf.matmul(x, w0) + b0)
        logits = tf.matmul(hidden, w1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        step = v1.get_variable("step", initializer=0, trainable=False)
        train = v1.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    return x, y, loss, step, w0, w1, train, v1.global_variables_initializer()


def test_training_steps_of_an_mlp(server):
    for use_resource in (False, True):

        def steps(session, model):
            x, y, loss, step, w0, w1, train, init = model
            session.run(init)
            data = numbers(32, 6, seed=3)
            labels = (data.sum(1) > 0).astype(np.int32) + (data[:, 0] > 0.5)
            values = []
            for _ in range(20):
                values.append(session.run([loss, train], {x: data, y: labels})[0])
            return values + session.run([step, w0, w1])

        losses = compare(server, lambda: mlp(use_resource), steps)
        assert losses[19] < losses[0]


def test_every_dtype_goes_there_and_back(server):
    values = [np.array([[1, 2, 3], [4, 5, 6]], dtype) for dtype in (
        np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.complex64,
        np.complex128)]
    values += [np.array([1.5, -2.0, 0.25], getattr(tf.dtypes.experimental, name).as_numpy_dtype)
               for name in ("float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz")]
    values += [np.array([1, 7, 0], getattr(tf.dtypes.experimental, name).as_numpy_dtype) for name in ("int4", "uint4")]
    values += [np.array([1.5, -2.0], tf.bfloat16.as_numpy_dtype), np.array([True, False]), np.array([b"", b"a", b"x" * 300], object), np.float32(3.5), np.zeros([0, 3], np.float32)]
    with tf.Graph().as_default():
        fed = [v1.placeholder(tf.as_dtype(np.asarray(value).dtype) if np.asarray(value).dtype != object else tf.string) for value in values]
        copies = [tf.identity(each) for each in fed]
        with v1.Session(server.target()) as session:
            found = session.run(copies, dict(zip(fed, values)))
    for value, copy in zip(values, found):
        np.testing.assert_array_equal(copy, value)


def test_large_tensors_go_there_and_back(server):
    value = numbers(6, 1024, 1024)
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32)
        with v1.Session(server.target()) as session:
            np.testing.assert_array_equal(session.run(tf.negative(x), {x: value}), -value)


def test_a_graph_grows_between_steps(server):
    def build():
        return v1.get_variable("grown", initializer=numbers(4))

    def steps(session, v):
        session.run(v.initializer)
        values = []
        for i in range(5):
            v = v * float(i + 1)
            values.append(session.run(v))
        return values

    compare(server, build, steps)


def test_devices_are_listed(server):
    with tf.Graph().as_default(), v1.Session(server.target()) as session:
        devices = session.list_devices()
    assert [device.name for device in devices] == ["/job:local/replica:0/task:0/device:CPU:0"]
    assert devices[0].device_type == "CPU" and devices[0].incarnation != 0


def test_a_missing_gpu_is_forgiven_where_placement_is_soft(server):
    with tf.Graph().as_default():
        with tf.device("/gpu:0"):
            there = tf.constant(3) + 1
        with v1.Session(server.target()) as session:
            error = error_of(lambda: session.run(there))
            assert isinstance(error, tf.errors.InvalidArgumentError) and "GPU:0" in error.message, error
        with v1.Session(server.target(), config=v1.ConfigProto(allow_soft_placement=True)) as session:
            assert session.run(there) == 4


def test_the_old_graph_runs_after_nodes_that_cannot(server):
    with tf.Graph().as_default(), v1.Session(server.target(), config=v1.ConfigProto(allow_soft_placement=True)) as session:
        one = tf.constant(1) + 0
        assert session.run(one) == 1
        with tf.device("/job:nowhere/task:7"):
            lost = tf.constant(3) + 1
        handle = v1.get_session_handle(tf.constant([1.0, 2.0]))  # TensorFlow's own server refuses it too
        for bad in (lost, handle):
            assert isinstance(error_of(lambda: session.run(bad)), (tf.errors.InvalidArgumentError, tf.errors.NotFoundError))  # pylint: disable=cell-var-from-loop
        assert session.run([one, one + 1]) == [1, 2]


def test_random_numbers_are_those_of_the_session(server):
    def build():
        v1.set_random_seed(7)
        return v1.random_uniform([4], seed=3), v1.random_normal([3], seed=5)

    def steps(session, model):
        return [session.run(model[0]), session.run(model[0]), session.run(model[1]), session.run(model[0])]

    compare(server, build, steps)
    compare(server, build, steps)


def test_a_checkpoint_of_another_shape_is_refused(server):
    folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    for rows in (4, 5):
        with tf.Graph().as_default(), v1.Session(server.target(), config=v1.ConfigProto(isolate_session_state=True)) as session:
            v = v1.get_variable("shaped", initializer=numbers(rows, 3), use_resource=True)
            saver = v1.train.Saver()
            if rows == 4:
                session.run(v.initializer)
                saver.save(session, folder + "/model")
            else:
                error = error_of(lambda: saver.restore(session, folder + "/model"))
                assert isinstance(error, tf.errors.InvalidArgumentError), error


def test_sessions_of_one_server_share_variables(server):
    with tf.Graph().as_default():
        v = v1.get_variable("shared", initializer=numbers(4))
        with v1.Session(server.target()) as one, v1.Session(server.target()) as other:
            one.run(v.initializer)
            np.testing.assert_array_equal(other.run(v), numbers(4))
        config = v1.ConfigProto(isolate_session_state=True)
        with v1.Session(server.target(), config=config) as alone:
            try:
                alone.run(v)
                raise AssertionError("a variable of others is there")
            except tf.errors.FailedPreconditionError:
                pass


def test_an_error_has_its_class_and_its_op(server):
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, None], name="x")
        product = tf.matmul(x, tf.ones([3, 2]), name="product")
        never = v1.get_variable("never", [2], use_resource=False)
        with v1.Session(server.target()) as session:
            error = error_of(lambda: session.run(product, {x: np.ones([2, 2])}))
            assert isinstance(error, tf.errors.InvalidArgumentError) and error.op is product.op, error
            error = error_of(lambda: session.run(product))
            assert isinstance(error, tf.errors.InvalidArgumentError) and error.op is x.op, error
            error = error_of(lambda: session.run(never + 1.0))
            assert isinstance(error, tf.errors.FailedPreconditionError), error
            assert "Attempting to use uninitialized value never" in error.message, error
            np.testing.assert_array_equal(session.run(product, {x: np.ones([1, 3])}), [[3, 3]])


def test_an_op_that_is_missing_matters_to_who_needs_it(server):
    with tf.Graph().as_default():
        one = tf.constant(1.0)
        missing = tf.raw_ops.ConfigureDistributedTPU()
        with v1.Session(server.target()) as session:
            assert session.run(one) == 1
            error = error_of(lambda: session.run(missing.op))
            assert isinstance(error, tf.errors.NotFoundError) and error.op is missing.op, error
            assert "Op type not registered 'ConfigureDistributedTPU' in binary running on" in error.message, error
            assert session.run(one + 1.0) == 2


def blocked():
    return tf.queue.FIFOQueue(2, tf.float32).dequeue()


def test_a_step_ends_by_its_timeout(server):
    with tf.Graph().as_default():
        value = blocked()
        with v1.Session(server.target()) as session:
            options = v1.RunOptions(timeout_in_ms=300)
            assert isinstance(error_of(lambda: session.run(value, options=options)), tf.errors.DeadlineExceededError)
            assert session.run(tf.constant(3.0)) == 3
        with v1.Session(server.target(), config=v1.ConfigProto(operation_timeout_in_ms=2000)) as session:
            assert isinstance(error_of(lambda: session.run(value)), tf.errors.DeadlineExceededError)
            assert session.run(tf.constant(3.0)) == 3


def noted_dequeue(name):
    """A step that first says that it has begun, then waits for an element of a queue that all sessions share."""
    begun = v1.get_variable(name + "_begun", initializer=0, use_resource=True)
    queue = tf.queue.FIFOQueue(2, tf.float32, shared_name=name)
    with tf.control_dependencies([v1.assign_add(begun, 1)]):
        with tf.control_dependencies([tf.identity(1.0)]):
            value = queue.dequeue()
    return begun, queue, value


def await_value(session, fetch, value):
    end = time.time() + 120
    while session.run(fetch) != value:
        assert time.time() < end, "the step has not begun"
        time.sleep(0.02)


def test_closing_a_session_ends_its_steps(server):
    with tf.Graph().as_default():
        begun, _, value = noted_dequeue("closing")
        watcher = v1.Session(server.target())
        watcher.run(begun.initializer)
        session = v1.Session(server.target())
        session.run(begun)
        errors = []
        thread = threading.Thread(target=lambda: errors.append(error_of(lambda: session.run(value))))
        thread.start()
        await_value(watcher, begun, 1)
        session.close()
        thread.join()
        watcher.close()
    assert isinstance(errors[0], tf.errors.CancelledError), errors
    assert "Session::Close()" in errors[0].message, errors


def test_a_partial_run_gives_what_is_fetched_after_the_last_feed(server):
    def build():
        a, b = v1.placeholder(tf.float32, []), v1.placeholder(tf.float32, [])
        return a, b, a * 2.0, a * 2.0 + b

    def steps(session, model):
        a, b, twice, total = model
        run = session.partial_run_setup([twice, total], [a, b])
        first = session.partial_run(run, twice, {a: 3.0, b: 1.0})
        return [first, session.partial_run(run, total)]

    compare(server, build, steps)


def test_an_error_of_a_partial_run_is_that_of_its_later_parts(server):
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [], name="x")
        never = v1.get_variable("never_set", [2], use_resource=True).read_value()
        one, twice = tf.constant(1.0) + 1.0, x * 2.0
        with v1.Session(server.target()) as session:
            run = session.partial_run_setup([never, one, twice], [x])
            assert isinstance(error_of(lambda: session.partial_run(run, never)), tf.errors.FailedPreconditionError)
            error = error_of(lambda: session.partial_run(run, twice, {x: 1.0}))
            assert isinstance(error, tf.errors.FailedPreconditionError), error


def test_a_partial_run_is_fed_in_parts(server):
    def build():
        a, b = v1.placeholder(tf.float32, []), v1.placeholder(tf.float32, [])
        return a, b, a * 2.0, a * 2.0 + b

    def steps(session, model):
        a, b, twice, total = model
        run = session.partial_run_setup([twice, total], [a, b])
        first = session.partial_run(run, twice, {a: 3.0})
        return [first, session.partial_run(run, total, {b: first + 1})]

    compare(server, build, steps)


def test_a_partial_run_fetches_references(server):
    def build():
        v = v1.get_variable("partial", initializer=2.0, use_resource=False)
        a = v1.placeholder(tf.float32, [])
        return v.initializer, a, v1.assign_add(v, 1.0), a + 1.0

    def steps(session, model):
        init, a, added, total = model
        session.run(init)
        run = session.partial_run_setup([added, total], [a])
        return [session.partial_run(run, added), session.partial_run(run, total, {a: 4.0})]

    compare(server, build, steps)


def test_a_callable_runs(server):
    with tf.Graph().as_default():
        x, y = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.float32, [None])
        total = x + y
        with v1.Session(server.target()) as session:
            options = config_pb2.CallableOptions()
            options.feed.extend([x.name, y.name])
            options.fetch.append(total.name)
            call = session._make_callable_from_options(options)
            np.testing.assert_array_equal(call(np.float32([1, 2]), np.float32([3, 4]))[0], [4, 6])
            np.testing.assert_array_equal(session.make_callable(total, [x, y])([1], [2]), [3])


def test_a_reset_forgets_variables(server):
    with tf.Graph().as_default():
        v = v1.get_variable("forgotten", initializer=numbers(3))
        old = v1.Session(server.target())
        old.run(v.initializer)
        v1.Session.reset(server.target())
        assert isinstance(error_of(lambda: old.run(v)), tf.errors.AbortedError)
        with v1.Session(server.target()) as session:
            assert isinstance(error_of(lambda: session.run(v)), tf.errors.FailedPreconditionError)


def test_a_trace_is_what_the_timeline_reads(server):
    with tf.Graph().as_default():
        product = tf.matmul(v1.placeholder_with_default(numbers(50, 50), [None, 50]), tf.constant(numbers(50, 50)), name="product")
        with v1.Session(server.target()) as session:
            metadata = v1.RunMetadata()
            session.run(product, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=metadata)
    names = [node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats]
    assert "product" in names, names
    assert "product" in timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()


def test_a_client_that_dies_leaves_nothing_that_runs(server):
    program = """
import os, sys
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import session_interop_test as test
v1 = test.v1
begun, _, value = test.noted_dequeue("dying")
session = v1.Session(sys.argv[1])
session.run(value)
"""
    with tf.Graph().as_default():
        begun, queue, value = noted_dequeue("dying")
        put = queue.enqueue(5.0)
        with v1.Session(server.target()) as session:
            session.run(begun.initializer)
            environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__)))
            client = subprocess.Popen([sys.executable, "-c", program, server.target()], env=environment)
            await_value(session, begun, 1)
            client.kill()
            client.wait()
            # Its step would take the first element: it has been waiting longer. It ends some seconds after its client.
            for attempt in range(30):
                session.run(put)
                if not error_is_timeout(lambda: session.run(value, options=v1.RunOptions(timeout_in_ms=5000))):
                    break
            else:
                raise AssertionError("the step of the dead client takes all elements")
            assert attempt < 2, "it can take one element"


class Relay:
    """Passes bytes between clients and a server, and breaks all connections when it is told to; a context."""

    def __init__(self, target):
        host, port = target[len("grpc://"):].split(":")
        self.server = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def target(self):
        return "grpc://127.0.0.1:%d" % self.listener.getsockname()[1]

    def accept(self):
        try:
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.server)
                self.sockets += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()
        except OSError:
            pass  # it was closed

    @staticmethod
    def copy(source, sink):
        try:
            for data in iter(lambda: source.recv(1 << 16), b""):
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            Relay.end(each)

    @staticmethod
    def end(connection):
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other end was faster

    def break_connections(self):
        sockets, self.sockets = self.sockets, []
        for each in sockets:
            self.end(each)
        return len(sockets)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for each in self.sockets:
            each.close()


def test_a_step_survives_the_connection_of_its_client(server):
    with tf.Graph().as_default(), Relay(server.target()) as relay:
        begun, queue, value = noted_dequeue("surviving")
        put = queue.enqueue(5.0)
        with v1.Session(server.target()) as watcher, v1.Session(relay.target()) as session:
            watcher.run(begun.initializer)
            session.run(begun)
            results = []

            def take():
                try:
                    results.append(session.run(value))
                except tf.errors.OpError as error:
                    results.append(error)

            thread = threading.Thread(target=take)
            thread.start()
            await_value(watcher, begun, 1)
            assert relay.break_connections() > 0
            watcher.run(put)
            thread.join(120)
            assert results == [5.0], results
            assert watcher.run(begun) == 1, "the step has run once"


def error_is_timeout(call):
    try:
        call()
        return False
    except tf.errors.DeadlineExceededError:
        return True


def test_who_must_show_a_token_gets_an_address(server):
    environment = dict(os.environ, WEIR_JOB_TOKEN="a secret of this test".replace(" ", "-"))
    port = free_ports(1)[0]
    with WeirServers(server.weir, flags=["--tensorflow_clients=127.0.0.1:%d" % port], environment=environment) as guarded:
        with tf.Graph().as_default():
            one = tf.constant(1.0)
            with v1.Session(guarded.target(), config=v1.ConfigProto(operation_timeout_in_ms=20000)) as session:
                error = error_of(lambda: session.run(one))
                assert isinstance(error, tf.errors.UnauthenticatedError) and "--tensorflow_clients=127.0.0.1:PORT" in error.message, error
            with v1.Session("grpc://127.0.0.1:%d" % port) as session:
                assert session.run(one) == 1
    open_to_all = [server.weir, "serve", "--cluster_spec=local|127.0.0.1:%d" % port, "--job_name=local", "--tensorflow_clients=0.0.0.0:0"]
    refused = subprocess.run(open_to_all, capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0 and "other machines could reach this address" in refused.stderr, refused


def test_graphs_of_clients_stay_in_the_allowed_folders(server):
    folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    inside, outside = folder + "/inside", folder + "/outside"
    os.mkdir(inside)
    with WeirServers(server.weir, flags=["--allow_dir=" + inside]) as confined, tf.Graph().as_default():
        v = v1.get_variable("v", initializer=numbers(3))
        saver = v1.train.Saver()
        with v1.Session(confined.target()) as session:
            session.run(v.initializer)
            saver.save(session, inside + "/model")
            error = error_of(lambda: session.run("save/control_dependency", {"save/Const:0": outside}))
            assert isinstance(error, tf.errors.PermissionDeniedError), error


def test_collectives_of_devices(server):
    from tensorflow.python.ops import collective_ops
    with WeirServers(server.weir, flags=["--num_cpus=3"]) as devices, tf.Graph().as_default():
        reduced, gathered, sent = [], [], []
        for i in (0, 2):  # two of the three
            with tf.device("/CPU:%d" % i):
                x = tf.constant(numbers(4) + i)
                reduced.append(collective_ops.all_reduce(x, 2, 1, 1, "Add", "Div"))
                gathered.append(collective_ops.all_gather(x, 2, 1, 2))
                sent.append(collective_ops.broadcast_send(x, x.shape, x.dtype, 2, 1, 3) if i == 0 else
                            collective_ops.broadcast_recv(x.shape, x.dtype, 2, 1, 3))
        with v1.Session(devices.target(), config=v1.ConfigProto(operation_timeout_in_ms=60000)) as session:
            for _ in range(2):
                means, rows, values = session.run([reduced, gathered, sent])
                for i in range(2):
                    np.testing.assert_allclose(means[i], numbers(4) + 1, rtol=1e-6)
                    np.testing.assert_array_equal(rows[i], np.concatenate([numbers(4), numbers(4) + 2]))
                    np.testing.assert_array_equal(values[i], numbers(4))
        def reduce(device, size, group=1, timeout=0):
            with tf.device(device):
                return collective_ops.all_reduce(tf.constant(numbers(4)), size, group, 1, "Add", "Id", timeout=timeout)

        cpus = [reduce("/CPU:%d" % i, 2, 2) for i in range(3)]
        alone, waits = reduce("/CPU:0", 1, 3), reduce("/CPU:0", 2, 4)
        with tf.device("/CPU:0"):
            late = tf.cond(tf.compat.v1.placeholder_with_default(False, []), lambda: reduce("/CPU:1", 2, 5),
                           lambda: tf.constant(numbers(4)))
            early = reduce("/CPU:0", 2, 5, timeout=0.2)
        with v1.Session(devices.target(), config=v1.ConfigProto(operation_timeout_in_ms=60000)) as session:
            error = error_of(lambda: session.run([reduced[0], reduce("/CPU:1", 3)]))
            assert "group_size is 3" in error.message and "on 2 of this task's devices" in error.message, error
            # Who would be with whom depended on who came first.
            error = error_of(lambda: session.run(cpus))
            assert isinstance(error, tf.errors.InternalError) and "on 3 of this task's devices" in error.message, error
            np.testing.assert_array_equal(session.run(alone), numbers(4))
            error = error_of(lambda: session.run(waits))
            assert "group_size is 2" in error.message and "on 1 of this task's devices" in error.message, error
            error = error_of(lambda: session.run([early, late]))
            assert isinstance(error, tf.errors.DeadlineExceededError) and "timed out waiting" in error.message, error


def test_collectives_of_devices_beside_groups_of_replicas(server):
    """Two workers without a ps are a group of their own; what one task's devices compute is theirs alone."""
    from tensorflow.python.ops import collective_ops
    with WeirServers(server.weir, {"worker": 2}, flags=["--num_cpus=2"]) as workers, tf.Graph().as_default():
        sums = []
        for i in range(2):
            with tf.device("/job:worker/task:0/CPU:%d" % i):
                sums.append(collective_ops.all_reduce(tf.constant(numbers(4) + i), 2, 1, 1, "Add", "Id"))
        with v1.Session(workers.target(), config=v1.ConfigProto(operation_timeout_in_ms=60000)) as session:
            for value in session.run(sums):
                np.testing.assert_allclose(value, 2 * numbers(4) + 1, rtol=1e-6)


def test_shapes_follow_what_is_fed_for_a_constant(server):
    def build():
        n = tf.constant(4)
        x = tf.fill([n, 3], 2.0)
        return n, [x, tf.broadcast_to(x, [4, 3]), tf.raw_ops.Shape(input=x), tf.size(x), tf.nn.relu(x + tf.ones([4, 3])) * 2.0]

    def steps(session, model):
        n, fetches = model
        return [session.run(fetch, feed) for fetch in fetches for feed in ({n: 1}, {})]

    compare(server, build, steps)


def test_a_closed_session_is_over(server):
    with tf.Graph().as_default():
        x = tf.constant(1.0) + 1.0
        session = v1.Session(server.target())
        assert session.run(x) == 2.0
        session.close()
        with v1.Session(server.target()) as another:
            assert another.run(x) == 2.0


if __name__ == "__main__":
    with WeirServers(sys.argv[1]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
