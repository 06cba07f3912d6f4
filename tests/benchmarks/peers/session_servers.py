"""Servers of Weir and of TensorFlow side by side, as TensorFlow's clients see them, for measurements in turns."""
import json
import os
import socket
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

PEERS = ("weir", "tensorflow")

TENSORFLOW_SERVER = """
import json, sys
import tensorflow as tf
server = tf.compat.v1.train.Server(json.loads(sys.argv[1]), job_name=sys.argv[2], task_index=int(sys.argv[3]))
print("serving", flush=True)
server.join()
"""


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = ["127.0.0.1:%d" % each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return addresses


class SessionServers:
    """A cluster of each peer with the tasks {"ps": 1, "worker": 2}; a context."""

    def __init__(self, weir, tasks, peers=PEERS):
        self.weir, self.processes, self.clusters = weir, [], {}
        for peer in peers:
            self.clusters[peer] = {job: free_addresses(count) for job, count in tasks.items()}

    def targets(self, peer, job):
        return ["grpc://" + address for address in self.clusters[peer][job]]

    def start(self, peer, job, task):
        cluster = self.clusters[peer]
        if peer == "weir":
            spec = ",".join("%s|%s" % (name, ";".join(addresses)) for name, addresses in cluster.items())
            command = [self.weir, "serve", "--cluster_spec=" + spec, "--job_name=" + job, "--task_index=%d" % task]
        else:
            command = [sys.executable, "-c", TENSORFLOW_SERVER, json.dumps(cluster), job, str(task)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.processes.append(process)
        line = process.stdout.readline()
        while line and not line.startswith("serving"):
            line = process.stdout.readline()
        assert line, "a server of %s did not start" % peer

    def __enter__(self):
        try:
            for peer, cluster in self.clusters.items():
                for job, addresses in cluster.items():
                    for task in range(len(addresses)):
                        self.start(peer, job, task)
        except BaseException:  # Python calls __exit__ only of what was entered
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()


def in_turns(rounds, measure):
    """Median of measure(peer), seconds, for each peer; one round asks each once."""
    seconds = {peer: [] for peer in PEERS}
    for _ in range(rounds):
        for peer in PEERS:
            seconds[peer].append(measure(peer))
    return {peer: sorted(each)[len(each) // 2] for peer, each in seconds.items()}


def emit(metric, seconds, num_bytes=None):
    """Lines in weir_bench's form: GB/s where bytes are moved, else microseconds."""
    for peer, each in seconds.items():
        value, unit = (each * 1e6, "us") if num_bytes is None else (num_bytes / 1e9 / each, "GB/s")
        print(json.dumps({"peer": peer, "metric": metric, "value": value, "unit": unit,
                          "detail": {"times_as_fast": seconds["tensorflow"] / each}}), flush=True)
