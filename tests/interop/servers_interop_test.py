"""What becomes of `weir serve` when its clients are killed, when it is told to end, and while it waits.

usage: servers_interop_test.py WEIR EMPTY_DIRECTORY
"""
import os
import signal
import subprocess
import sys
import time

import cases
from weir_server import WeirServers

# Runs one step on a server.
CLIENT = '''
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
if sys.argv[2] == "loop":
    fetch = tf.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 100, [tf.constant(0)])
if sys.argv[2] == "kernel":  # one that does not ask whether its step is wanted: two calls of oneDNN
    images = tf.random.uniform([1, 700, 700, 64])
    fetch = tf.raw_ops.Conv2DBackpropFilter(input=images, filter_sizes=[63, 63, 64, 64], out_backprop=images,
                                            strides=[1, 1, 1, 1], padding="SAME")
with tf.Session(sys.argv[1]) as session:
    print("READY", flush=True)
    session.run(fetch)
'''


def client(servers, directory, what):
    path = os.path.join(directory, "client.py")
    with open(path, "w") as program:
        program.write(CLIENT)
    process = subprocess.Popen([sys.executable, path, servers.target(), what], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "READY\n"
    return process


def seconds_computed(server):
    with open("/proc/%d/stat" % server.pid) as stat:
        times = stat.read().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def await_true(what, condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def begin(servers, directory, what):
    """A client whose step computes."""
    server = servers.processes["local", 0]
    process = client(servers, directory, what)
    before = seconds_computed(server)
    # What comes before the kernel that is meant, random numbers, takes up to a second.
    await_true("the server does not compute", lambda: seconds_computed(server) > before + 4)
    return process, server


def test_a_loop_ends_when_its_client_is_killed(weir, directory):
    with WeirServers(weir) as servers:
        process, server = begin(servers, directory, "loop")
        process.kill()
        process.wait()

        def has_stopped():
            before = seconds_computed(server)
            time.sleep(3)
            return seconds_computed(server) - before < 0.2

        await_true("the server computes on", has_stopped)


def test_a_server_ends_though_a_kernel_computes(weir, directory):
    with WeirServers(weir) as servers:
        process, server = begin(servers, directory, "kernel")
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
        process.kill()
        process.wait()
        assert code == 128 + signal.SIGTERM, code
        await_true("it does not say why", lambda: "local:0 ends though a kernel still computes" in servers.output(), 10)


def test_only_a_parameter_server_waits_for_workers(weir, _):
    with WeirServers(weir, {"ps": 1, "worker": 1}) as servers, WeirServers(weir, {"ps": 1, "worker": 1}) as others:
        others.kill("worker", 0)
        await_true("the ps does not say that it waits", lambda: others.output().count("ps:0 waits for worker:0") >= 2)
        assert "waits for" not in servers.output(), servers.output()


if __name__ == "__main__":
    sys.exit(cases.run_in_folders(globals()))
