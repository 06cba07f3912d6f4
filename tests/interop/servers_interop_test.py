"""What becomes of `weir serve` when its clients are killed, and while it waits.

usage: servers_interop_test.py WEIR EMPTY_DIRECTORY
"""
import os
import subprocess
import sys
import time

import cases
from weir_server import WeirServers

# Runs a step that never ends on a server.
CLIENT = '''
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
fetch = tf.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 100, [tf.constant(0)])
with tf.Session(sys.argv[1]) as session:
    print("READY", flush=True)
    session.run(fetch)
'''


def client(servers, directory):
    path = os.path.join(directory, "client.py")
    with open(path, "w") as program:
        program.write(CLIENT)
    process = subprocess.Popen([sys.executable, path, servers.target()], stdout=subprocess.PIPE, text=True)
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


def test_a_loop_ends_when_its_client_is_killed(weir, directory):
    with WeirServers(weir) as servers:
        server = servers.processes["local", 0]
        process = client(servers, directory)
        before = seconds_computed(server)
        await_true("the server does not compute", lambda: seconds_computed(server) > before + 2)
        process.kill()
        process.wait()

        def has_stopped():
            before = seconds_computed(server)
            time.sleep(3)
            return seconds_computed(server) - before < 0.2

        await_true("the server computes on", has_stopped)


def test_only_a_parameter_server_waits_for_workers(weir, _):
    with WeirServers(weir, {"ps": 1, "worker": 1}) as servers, WeirServers(weir, {"ps": 1, "worker": 1}) as others:
        others.kill("worker", 0)
        await_true("the ps does not say that it waits", lambda: others.output().count("ps:0 waits for worker:0") >= 2)
        assert "waits for" not in servers.output(), servers.output()


if __name__ == "__main__":
    sys.exit(cases.run_in_folders(globals()))
