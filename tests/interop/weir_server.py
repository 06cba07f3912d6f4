"""Starts `weir serve` on free ports of loopback, and ends what it started."""
import random
import socket
import subprocess
import threading


# They stand for the ports that this process was given (distributed/launch/free_ports.cc has the same names).
_reservations = []


def _reserve(port):
    """Whether nobody else has the port, in any test that runs now; then it is this process's until it ends."""
    reservation = socket.socket(socket.AF_UNIX)
    try:
        reservation.bind("\0weir-port-%d" % port)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
    except OSError:
        reservation.close()
        return False
    _reservations.append(reservation)
    return True


def free_ports(count):
    """Below those that the kernel gives to outgoing connections, which may come before a server listens."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        end = int(file.read().split()[0])
    ports = []
    for port in random.sample(range(15000, end), end - 15000):
        if len(ports) == count:
            return ports
        if _reserve(port):
            ports.append(port)
    raise RuntimeError("there are no %d free ports below %d" % (count, end))


class WeirServers:
    """The tasks of a cluster, {"ps": 1, "worker": 2}; a context. Flags are for each of them."""

    def __init__(self, weir, tasks=None, flags=(), environment=None):
        self.tasks = tasks or {"local": 1}
        ports = iter(free_ports(sum(self.tasks.values())))
        self.addresses = {job: ["127.0.0.1:%d" % next(ports) for _ in range(count)] for job, count in self.tasks.items()}
        self.spec = ",".join("%s|%s" % (job, ";".join(hosts)) for job, hosts in self.addresses.items())
        self.weir, self.flags, self.environment = weir, list(flags), environment
        self.processes = {}
        self.lines = {}

    def target(self, job=None, task=0):
        return "grpc://" + self.addresses[job or next(iter(self.addresses))][task]

    def start(self, job, task):
        command = [self.weir, "serve", "--cluster_spec=" + self.spec, "--job_name=" + job, "--task_index=%d" % task]
        process = subprocess.Popen(command + self.flags, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=self.environment)
        self.processes[job, task] = process
        lines = self.lines.setdefault((job, task), [])
        first = process.stdout.readline()
        while first and not first.startswith("serving"):
            lines.append(first)
            first = process.stdout.readline()
        assert first, "the server did not start: " + "".join(lines)
        lines.append(first)

        def read():
            lines.extend(process.stdout)

        threading.Thread(target=read, daemon=True).start()

    def kill(self, job, task):
        self.processes[job, task].kill()
        self.processes[job, task].wait()

    def is_running(self, job, task=0):
        return self.processes[job, task].poll() is None

    def output(self):
        return "".join("%s:%d %s" % (job, task, line) for (job, task), lines in self.lines.items() for line in lines)

    def __enter__(self):
        for job, count in self.tasks.items():
            for task in range(count):
                self.start(job, task)
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
