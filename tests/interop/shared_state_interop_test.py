"""Variables whose shapes change, devices that their users ask for, and several sessions at once: on `weir serve` as in TensorFlow.

usage: shared_state_interop_test.py WEIR EMPTY_DIRECTORY
"""
import signal
import subprocess
import sys
import threading
import time

from two_sessions import compare, error_of

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops

import cases
from weir_server import WeirServers

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_resource_variables()
v1.disable_control_flow_v2()
TWO_CPUS = v1.ConfigProto(device_count={"CPU": 2})
# What a step may say that others have closed or reset under it.
OVER = (tf.errors.CancelledError, tf.errors.AbortedError, tf.errors.FailedPreconditionError, RuntimeError)


# Shapes.


def test_an_assignment_after_the_first_run_changes_the_shape(server):
    def build():
        v = v1.get_variable("grows", initializer=np.ones([2, 3], np.float32), use_resource=False)
        return v, tf.shape(v), tf.size(v * 2.0), tf.reduce_sum(v * v), v1.global_variables_initializer()

    def steps(session, model):
        v, shape, size, total, init = model
        session.run(init)
        values = session.run([v, shape, size, total])
        for value in (np.ones([4, 1], np.float32), np.full([1, 5], 3, np.float32), np.full([2, 2], 7, np.float32)):
            session.run(v1.assign(v, value, validate_shape=False))
            values += session.run([v, shape, size, total])
            values += [session.run(v + 1.0), session.run(tf.shape(v))]
        return values

    compare(server, build, steps)


def test_shapes_change_in_branches_loops_and_callables(server):
    def build():
        v = v1.get_variable("branches", initializer=np.ones([2], np.float32), use_resource=False)
        p = v1.placeholder(tf.bool, [])
        chosen = v1.cond(p, lambda: tf.identity(v) * 2.0, lambda: tf.zeros_like(v))
        looped = v1.while_loop(lambda i, _: i < 3, lambda i, total: (i + 1, total + tf.reduce_sum(v * 1.0)),
                               [tf.constant(0), tf.constant(0.0)])[1]
        return v, p, chosen, looped, v1.global_variables_initializer()

    def steps(session, model):
        v, p, chosen, looped, init = model
        session.run(init)
        call = session.make_callable([chosen, looped], [p])
        values = call(True) + call(False)
        session.run(v1.assign(v, np.full([3, 2], 2.0, np.float32), validate_shape=False))
        return values + call(True) + call(False)

    compare(server, build, steps)


def test_another_session_changes_the_shape(server):
    def outcomes(target, server_of_both):
        values = []
        with tf.Graph().as_default(), v1.Session(target) as first:
            v = v1.get_variable("elsewhere", initializer=np.ones([2], np.float32), use_resource=False)
            reads = [v * 2.0, tf.reduce_sum(v * v), tf.shape(v * 1.0), tf.concat([v, v], 0)]
            first.run(v1.global_variables_initializer())
            values += [first.run(each) for each in reads]
            if server_of_both:
                with tf.Graph().as_default(), v1.Session(target) as second:
                    w = v1.Variable(np.ones([3], np.float32), validate_shape=False, use_resource=False, name="elsewhere")
                    second.run(w.initializer)
            else:
                first.run(v1.assign(v, np.ones([3], np.float32), validate_shape=False))
            values += [first.run(each) for each in reads]
        return values

    for found, expected in zip(outcomes(server.target(), True), outcomes("", False)):
        np.testing.assert_array_equal(found, expected)


# Places.


def test_a_variable_is_where_the_whole_graph_says(server):
    def build():
        v = v1.get_variable("placed", initializer=np.float32(1), use_resource=True)
        with tf.device("/cpu:1"):
            add = v.assign_add(2.0)
            read = v.read_value()
        return v, add, read, v.initializer, v1.is_variable_initialized(v)

    def steps(session, model):
        v, add, read, init, is_initialized = model
        session.run(init)
        values = [session.run(is_initialized), session.run(read), session.run(add), session.run(v)]
        with tf.device("/cpu:0"):
            later = v.assign_add(10.0)
        return values + [session.run(later), session.run(read), session.run([v, read, is_initialized])[0]]

    values = compare(server, build, steps, TWO_CPUS)
    assert [float(value) for value in values] == [1, 1, 3, 3, 13, 13, 13], values


def test_a_session_is_made_where_another_device_is_asked_for(server):
    for use_resource in (False, True):
        with tf.Graph().as_default():
            v = v1.get_variable("trained", initializer=np.float32(1), use_resource=use_resource)
            step = v1.train.get_or_create_global_step()
            train = v1.train.GradientDescentOptimizer(0.5).minimize(tf.square(v), global_step=step)
            with tf.device("/cpu:1"), v1.train.MonitoredTrainingSession(server.target()) as session:
                assert [session.run([train, step])[1] for _ in range(3)][-1] in (2, 3)
        v1.Session.reset(server.target())


def test_queues_and_tables_are_where_the_whole_graph_says(server):
    def build():
        queue = v1.FIFOQueue(10, [tf.int64], [[]])
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
        with tf.device("/cpu:1"):
            look = table.lookup(queue.dequeue())
        return queue.enqueue_many([np.arange(6, dtype=np.int64)]), table.insert([0, 2, 4], [7, 8, 9]), look, queue.size()

    def steps(session, model):
        enqueue, insert, look, size = model
        session.run([enqueue, insert])
        return [session.run(look), session.run(look), session.run(look), session.run(size)]

    compare(server, build, steps, TWO_CPUS)


# Several sessions at once.


class Threads:
    """Runs calls at once; the first exception that none expects is the case's."""

    def __init__(self):
        self.threads, self.errors = [], []

    def start(self, call, *arguments):
        def run():
            try:
                call(*arguments)
            except BaseException as error:  # pylint: disable=broad-except
                self.errors.append(error)

        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()

    def join(self, seconds=90):
        end = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(0.1, end - time.monotonic()))
            assert not thread.is_alive(), "a call hangs"
        if self.errors:
            raise self.errors[0]


def is_alive(server):
    with tf.Graph().as_default(), v1.Session(server.target(), config=v1.ConfigProto(operation_timeout_in_ms=30000)) as session:
        assert session.run(tf.constant(3) + 4) == 7


def test_sessions_add_to_one_variable(server):
    def worker(use_resource):
        with tf.Graph().as_default(), v1.Session(server.target()) as session:
            v = v1.get_variable("summed%d" % use_resource, initializer=np.zeros([100], np.float32), use_resource=use_resource)
            add = v1.assign_add(v, tf.ones([100]), use_locking=True)
            for _ in range(200):
                session.run(add)

    for use_resource in (False, True):
        with tf.Graph().as_default(), v1.Session(server.target()) as session:
            v = v1.get_variable("summed%d" % use_resource, initializer=np.zeros([100], np.float32), use_resource=use_resource)
            session.run(v.initializer)
            threads = Threads()
            for _ in range(4):
                threads.start(worker, use_resource)
            threads.join()
            np.testing.assert_array_equal(session.run(v), np.full([100], 800, np.float32))


def test_a_graph_grows_while_its_steps_run(server):
    with tf.Graph().as_default() as graph, v1.Session(server.target()) as session:
        v = v1.get_variable("grown", initializer=np.zeros([2], np.float32), use_resource=False)
        add = v1.assign_add(v, [1.0, 1.0], use_locking=True)
        doubled = v * 2.0
        session.run(v.initializer)
        lock = threading.Lock()  # of the graph, which TensorFlow's is not made for

        def run():
            for _ in range(200):
                session.run(add.op)
                assert session.run(doubled).shape[0] in (2, 5)

        def grow():
            for i in range(25):
                with lock, graph.as_default():
                    more = tf.constant(float(i)) + 1.0
                assert session.run(more) == i + 1

        threads = Threads()
        for _ in range(3):
            threads.start(run)
        for _ in range(2):
            threads.start(grow)
        threads.join()
        np.testing.assert_array_equal(session.run(v), [600, 600])


def test_sessions_are_closed_and_reset_under_their_steps(server):
    def use(seed):
        random = np.random.RandomState(seed)
        for i in range(12):
            with tf.Graph().as_default():
                session = v1.Session(server.target())
                v = v1.get_variable("torn", initializer=np.zeros([50], np.float32), use_resource=bool(i % 2))
                queue = v1.FIFOQueue(2, [tf.float32], [[]], shared_name="torn_queue")
                x, y = v1.placeholder(tf.float32), v1.placeholder(tf.float32)
                steps = [v1.assign_add(v, tf.ones([50])), queue.dequeue(), queue.enqueue(1.0), v * 2.0]
                try:
                    session.run(v.initializer)
                    call = session.make_callable(steps[3])
                    part = session.partial_run_setup([x + 1.0, y + 2.0], [x, y])
                    inner = Threads()
                    for _ in range(3):
                        inner.start(lambda: ignore_over(lambda: session.run(steps[random.randint(4)])))
                    inner.start(lambda: ignore_over(lambda: session.partial_run(part, x + 1.0, {x: 1.0})))
                    inner.start(lambda: ignore_over(call))
                    if random.randint(3) == 0:
                        v1.Session.reset(server.target(), ["localhost"] if random.randint(2) else None)
                    time.sleep(0.02 * random.rand())
                    ignore_over(session.close)
                    inner.join()
                except OVER + (tf.errors.InvalidArgumentError, tf.errors.NotFoundError):
                    ignore_over(session.close)

    def ignore_over(call):
        try:
            call()
        except OVER + (tf.errors.InvalidArgumentError, ValueError):  # fetches that were not set up
            pass

    threads = Threads()
    for seed in range(4):
        threads.start(use, seed)
    threads.join()
    is_alive(server)


def test_handles_of_other_sessions(server):
    def make(shared_name):
        dataset = tf.data.Dataset.range(5)
        iterator = v1.data.make_initializable_iterator(dataset, shared_name=shared_name)
        handle = v1.placeholder(tf.string, [])
        fed = v1.data.Iterator.from_string_handle(handle, tf.int64, [])
        return iterator, iterator.string_handle(), handle, fed.get_next()

    with tf.Graph().as_default(), v1.Session(server.target()) as session:
        iterator, string, handle, element = make("known")
        session.run(iterator.initializer)
        text = session.run(string)
        assert session.run(element, {handle: text}) == 0
        with tf.Graph().as_default(), v1.Session(server.target()) as other:
            _, _, handle_there, element_there = make("known")
            assert other.run(element_there, {handle_there: text}) == 1
        with tf.Graph().as_default(), v1.Session(server.target(), config=v1.ConfigProto(isolate_session_state=True)) as isolated:
            own, own_string, handle_there, element_there = make("known")
            isolated.run(own.initializer)
            assert isolated.run(element_there, {handle_there: isolated.run(own_string)}) == 0
        assert session.run(element, {handle: text}) == 2
        for wrong in (b"", b"nonsense", text[: len(text) // 2], text + b"x", bytes(reversed(text))):
            error_of(lambda: session.run(element, {handle: wrong}))
    with tf.Graph().as_default(), v1.Session(server.target()) as later:
        _, _, handle, element = make("unknown")
        error_of(lambda: later.run(element, {handle: text.replace(b"known", b"other")}))
    is_alive(server)


def test_handles_of_variables_of_other_sessions(server):
    with tf.Graph().as_default(), v1.Session(server.target()) as session:
        v = v1.get_variable("lent", initializer=np.float32(5), use_resource=True)
        session.run(v.initializer)
        with tf.Graph().as_default(), v1.Session(server.target()) as other:
            w = v1.get_variable("lent", initializer=np.float32(5), use_resource=True)
            assert other.run(w) == 5
            other.run(w.assign_add(1.0))
        assert session.run(v) == 6
    assert_same_after_reset(server)


def assert_same_after_reset(server):
    v1.Session.reset(server.target())
    with tf.Graph().as_default(), v1.Session(server.target()) as session:
        v = v1.get_variable("lent", initializer=np.float32(5), use_resource=True)
        assert isinstance(error_of(lambda: session.run(v)), tf.errors.FailedPreconditionError)


def test_iterators_for_several_devices_in_several_sessions(server):
    def elements(seed, name):
        with tf.Graph().as_default(), v1.Session(server.target(), config=TWO_CPUS) as session:
            dataset = tf.data.Dataset.range(seed, seed + 40).map(lambda x: x * 2)
            iterator = multi_device_iterator_ops.MultiDeviceIterator(dataset, ["/cpu:0", "/cpu:1"], max_buffer_size=2)
            both = iterator.get_next()
            for _ in range(3):
                session.run(iterator.initializer)
                found = []
                while True:
                    try:
                        found += session.run(both)
                    except tf.errors.OutOfRangeError:
                        break
                assert found == [2 * (seed + i) for i in range(40)], (name, found)

    threads = Threads()
    for i in range(6):
        threads.start(elements, 100 * i, "thread %d" % i)
    threads.join()


def test_an_iterator_for_several_devices_is_left_in_the_middle(server):
    for turn in range(8):
        with tf.Graph().as_default():
            session = v1.Session(server.target(), config=TWO_CPUS)
            dataset = tf.data.Dataset.range(1000).map(lambda x: x + 1, num_parallel_calls=2).prefetch(4)
            iterator = multi_device_iterator_ops.MultiDeviceIterator(dataset, ["/cpu:0", "/cpu:1"])
            one, both = iterator.get_next("/cpu:0"), iterator.get_next()
            session.run(iterator.initializer)
            threads = Threads()

            def ask(fetch):
                try:
                    while True:
                        session.run(fetch)
                except OVER + (tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError):
                    pass  # also the end of a pass that was begun anew

            for fetch in (one, both, both):
                threads.start(ask, fetch)
            time.sleep(0.01 * turn)
            if turn % 2:
                session.run(iterator.initializer)
            session.close()
            threads.join()
    is_alive(server)


DYING_CLIENT = """
import os, sys, threading, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
v1 = tf.compat.v1
v1.disable_eager_execution()
session = v1.Session(sys.argv[1])
queue = v1.FIFOQueue(5, [tf.int32], [[]], shared_name="left")
mutex_v = v1.get_variable("left_v", initializer=tf.zeros([10]), use_resource=True)
session.run(mutex_v.initializer)
x = v1.placeholder(tf.float32)
part = session.partial_run_setup([x + 1.0, x + 2.0], [x])
iterator = v1.data.make_initializable_iterator(tf.data.Dataset.range(10**9).map(lambda i: i + 1, num_parallel_calls=2))
session.run(iterator.initializer)
fetches = [queue.dequeue(), mutex_v.assign_add(tf.ones([10])), iterator.get_next()]
def run(fetch):
    while True:
        session.run(fetch)
for fetch in fetches:
    threading.Thread(target=run, args=[fetch], daemon=True).start()
time.sleep(0.5)
print("running", flush=True)
time.sleep(1000)
"""


def test_clients_that_die_in_their_steps_leave_what_they_shared(server):
    clients = [subprocess.Popen([sys.executable, "-c", DYING_CLIENT, server.target()], stdout=subprocess.PIPE, text=True)
               for _ in range(2)]
    try:
        for client in clients:
            assert client.stdout.readline().strip() == "running"
    finally:
        for client in clients:
            client.send_signal(signal.SIGKILL)
            client.wait()
    with tf.Graph().as_default(), v1.Session(server.target(), config=v1.ConfigProto(operation_timeout_in_ms=60000)) as session:
        queue = v1.FIFOQueue(5, [tf.int32], [[]], shared_name="left")
        v = v1.get_variable("left_v", initializer=tf.zeros([10]), use_resource=True)
        assert session.run(v).shape == (10,)
        session.run(v.initializer)
        end, found = time.monotonic() + 30, None
        while found != 7:  # elements may be taken for those that died, until their steps have ended
            assert time.monotonic() < end, "no element came"
            session.run(queue.enqueue(7))
            try:
                found = session.run(queue.dequeue(), options=v1.RunOptions(timeout_in_ms=2000))
            except tf.errors.DeadlineExceededError:
                pass
    assert server.is_running("local")


if __name__ == "__main__":
    with WeirServers(sys.argv[1], flags=["--num_cpus=2"]) as local:
        code = cases.run(globals(), lambda case, name: case(local))
        if code != 0:
            print(local.output())
    sys.exit(code)
