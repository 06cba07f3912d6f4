"""TensorFlow's client on `weir serve` and on TensorFlow's own server, in turns, under weir_bench's names.

usage: tensorflow_sessions.py WEIR [ROUNDS] [METRIC...]   (default: 5 rounds of all)

session_run: an empty step. session_feed_N, session_fetch_N: N bytes. session_mlp_step, session_data_step: training, with fed
values and with those of a tf.data pipeline. session_graph36k_first_run: a new session's first run of 36,000 nodes, with
CreateSession.
"""
import sys
import time

import session_servers

NUM_NODES = 36000


class Case:
    """build() gives fetches and feeds of a call, which is made `calls` times after three that do not count."""

    def __init__(self, name, calls, build, num_bytes=None, is_first_run=False):
        self.metric, self.calls, self.build = "session_" + name, calls, build
        self.num_bytes, self.is_first_run = num_bytes, is_first_run


def cases(np, tf):
    v1 = tf.compat.v1

    def feed(num_bytes):
        def build():
            x = v1.placeholder(tf.float32, [None])
            return tf.identity(x).op, {x: np.ones([num_bytes // 4], np.float32)}
        return build

    def fetch(num_bytes):
        return lambda: (v1.placeholder_with_default(np.ones([1], np.float32), [1]) * tf.ones([num_bytes // 4]), {})

    def train(x, y):
        w0, w1 = (v1.get_variable("w%d" % i, shape) for i, shape in enumerate(([784, 128], [128, 10])))
        logits = tf.matmul(tf.nn.relu(tf.matmul(x, w0)), w1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        return [v1.train.GradientDescentOptimizer(0.1).minimize(loss), loss]

    def mlp():
        x, y = v1.placeholder(tf.float32, [None, 784]), v1.placeholder(tf.int32, [None])
        return train(x, y), {x: np.ones([64, 784], np.float32), y: np.zeros([64], np.int32)}

    def data():
        rows = tf.data.Dataset.from_tensor_slices((np.ones([1024, 784], np.uint8), np.zeros([1024], np.int32)))
        rows = rows.shuffle(1024, seed=1).repeat().map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, y))
        iterator = v1.data.make_initializable_iterator(rows.batch(64).prefetch(2))
        v1.add_to_collection("initializers", iterator.initializer)
        x, y = iterator.get_next()
        return train(x, y), {}

    def big_graph():
        x = v1.placeholder(tf.float32, [16])
        ys = [x] * 8
        for _ in range(NUM_NODES // 8):
            ys = [ys[k] + ys[(k + 1) % 8] for k in range(8)]
        return tf.add_n(ys), {x: np.zeros([16], np.float32)}

    def empty():
        return tf.constant(1.0).op, {}

    large = [Case("%s_%d" % (name, size), calls, kind(size), size)
             for calls, size in ((20, 4 << 20), (2, 128 << 20)) for name, kind in (("feed", feed), ("fetch", fetch))]
    return [Case("run", 300, empty), Case("feed_4", 300, feed(4)), Case("fetch_4", 300, fetch(4)), *large,
            Case("mlp_step", 100, mlp), Case("data_step", 100, data),
            Case("graph36k_first_run", 1, big_graph, is_first_run=True)]


def seconds_of(tf, case, graph, call, target):
    v1 = tf.compat.v1
    with graph.as_default():
        begin = time.perf_counter()
        with v1.Session(target) as session:
            if case.is_first_run:
                session.run(*call)
                return time.perf_counter() - begin
            session.run([v1.global_variables_initializer(), v1.get_collection("initializers")])
            for _ in range(3):
                session.run(*call)
            begin = time.perf_counter()
            for _ in range(case.calls):
                session.run(*call)
            return (time.perf_counter() - begin) / case.calls


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    import numpy as np
    import tensorflow as tf
    tf.compat.v1.disable_v2_behavior()
    with session_servers.SessionServers(sys.argv[1], {"local": 1}) as servers:
        for case in cases(np, tf):
            if sys.argv[3:] and case.metric not in sys.argv[3:]:
                continue
            graph = tf.Graph()
            with graph.as_default():
                call = case.build()
            seconds = session_servers.in_turns(
                rounds, lambda peer: seconds_of(tf, case, graph, call, servers.targets(peer, "local")[0]))
            session_servers.emit(case.metric, seconds, case.num_bytes)


if __name__ == "__main__":
    main()
