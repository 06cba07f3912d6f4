"""The rules of the house, once, for both tests: which room may know which, and which rooms know an expensive library.

A room is a top-level folder. A rule names its reason, and a broken rule prints it.
"""

import re

# Room -> the rooms it may reach. Read downwards it is the drawing in ARCHITECTURE.md.
MAY_REACH = {
    "graph": {"graph"},
    "ops": {"graph", "ops"},
    "kernels": {"graph", "kernels"},
    "placer": {"graph", "placer"},
    "session": {"graph", "ops", "kernels", "placer", "session"},
    "distributed": {"graph", "ops", "kernels", "placer", "session", "distributed"},
    "library": {"graph", "ops", "kernels", "placer", "session", "distributed", "library"},
    "examples": {"graph", "ops", "kernels", "placer", "session", "distributed", "examples"},
    "tests": {"graph", "ops", "kernels", "placer", "session", "distributed", "examples", "tests"},
}

WHY = {
    "graph": "graph/ is what everything else is made of: it must build and be tested with Abseil alone",
    "ops": "ops and kernels meet by op name and attrs in session/; an op that knows a kernel could not run on another device",
    "kernels": "kernels know tensors and attrs, not schemas, gradients or sessions; a device must be addable without them",
    "placer": "placement is decided from names and a description of what devices can do, before any kernel exists",
    "session": "one Session over the Worker interface: it must not know whether a worker is in this process",
    "distributed": "nothing that ships may depend on examples or tests",
    "library": "nothing that ships may depend on examples or tests",
    "examples": "an example that needs a test's code could not be copied by a user",
    "tests": "",
}

# Folders that may use a library directly. Its headers cost seconds a file, and its types would leak into every room.
LIBRARY_USERS = {
    "protobuf": (
        ["graph/interchange", "kernels/formats", "distributed", "tests"],
        "files and the wire are protobuf, the runtime is not: convert at the edge, in graph/interchange or kernels/formats",
    ),
    "grpc": (
        ["distributed/transport/grpc", "distributed/election/etcd", "tests"],
        "a transport is an interface (distributed/transport), and so is the store of an election; only those over gRPC know gRPC",
    ),
    "openssl": (
        ["distributed/keys", "distributed/transport/tls"],
        "only making certificates and TLS over sockets of our own need OpenSSL itself",
    ),
    "onednn": (
        ["kernels"],
        "oneDNN is how the CPU computes; another device or a build without it must need no change above kernels/",
    ),
    "re2": (
        ["kernels/cpu/strings"],
        "regular expressions are what some ops compute; nothing else of Weir needs them",
    ),
    "libpng": (
        ["kernels/formats"],
        "a format of files is read and written in kernels/formats, whatever library does it",
    ),
    "libjpeg": (
        ["kernels/formats"],
        "a format of files is read and written in kernels/formats, whatever library does it",
    ),
    "sqlite3": (
        ["kernels/formats"],
        "a format of files is read and written in kernels/formats, whatever library does it",
    ),
    "giflib": (
        ["kernels/formats"],
        "a format of files is read and written in kernels/formats, whatever library does it",
    ),
    "cudart": (
        ["kernels/cuda"],
        "what Weir asks of CUDA is an interface (kernels/cuda/cuda_api.h); everything above it builds and is tested without CUDA",
    ),
    "farmhash": (
        ["kernels/cpu"],
        "the numbers of buckets are TensorFlow's; Weir's own tables hash as Abseil does",
    ),
}


# The machine's clocks, randomness, threads and waits. Whoever uses them cannot be simulated (kernels/environment.h).
PAST_THE_ENVIRONMENT = re.compile(
    r"absl::Now\b|absl::SleepFor|GetCurrentTimeNanos|std::chrono::(?:steady|system)_clock|sleep_for|"
    r"std::random_device|absl::BitGen|\bgetrandom\(|"
    r"std::j?thread\b(?!::id)|std::async|absl::CondVar|absl::Notification|absl::BlockingCounter|"
    r"ProcessNow|ProcessCondVar|"
    r"mutex\w*(?:\.|->)Await|\bAwaitWith(?:Timeout|Deadline)\(|LockWhen")

# Files and folders of shipped rooms that may, and why a simulation can do without them.
MAY_GO_PAST_THE_ENVIRONMENT = {
    "kernels/environment.h": "it is the way to the real ones",
    "kernels/real_environment.cc": "it is the real one",
    "kernels/system_thread": "starts the threads of the real one, and of those below",
    "kernels/real_threads": "the real threads",
    "kernels/real_timers": "the real timers",
    "kernels/process_clock": "the real clock",
    "kernels/thread_pool": "splits one kernel: nothing else can run before it is done",
    "kernels/cancellation.cc": "waits for a callback that is just running, which waits for nothing",
    "kernels/serial_thread": "a queue of a device; no device of a simulated cluster has any",
    "kernels/device.cc": "waits for such a queue",
    "kernels/fake": "has such queues",
    "kernels/evaluate.cc": "runs one kernel at once, before there is a step",
    "kernels/cpu/random/random_stream.cc": "an op without a seed asks for any numbers",
    "kernels/cpu/data_flow/queue_order.cc": "an op without a seed asks for any order",
    "kernels/formats": "files of the machine have its times",
    "session/executor": "measures what kernels cost; a deadline is never over by the machine's clock (simulation/scheduler.h)",
    "session/monitored/held_disk.h": "a test holds its disk",
    "session/monitored/hooks": "say how long things take; not given their environment yet",
    "session/monitored/saver": "checkpoints have the machine's times; its thread is not the environment's yet",
    "session/monitored/termination.cc": "signals are the operating system's",
    "distributed/transport/grpc": "a real network; a simulation has its own transport",
    "distributed/election/etcd": "asks a real service; a simulation has its own store",
    "distributed/metrics/http_listener.cc": "a real network, for what is no task",
    "distributed/metrics/http_listener.h": "a real network, for what is no task",
    "distributed/transport/sockets": "a real network",
    "distributed/transport/tls": "for sockets",
    "distributed/transport/inproc": "threads of its own, for tests",
    "distributed/transport/fault": "wraps a real network",
    "distributed/timing": "for transports",
    "distributed/host_name.cc": "asks a real name server",
    "distributed/tcp_probe.cc": "connects to a real address; a simulation has none",
    "distributed/doctor": "looks at a real cluster",
    "distributed/keys": "makes certificates for real clocks",
    "distributed/launch": "starts real processes",
    "distributed/command": "programs",
}


def room_of(path):
    """'graph/types/shape.h' -> 'graph'; None outside the rooms."""
    room = path.split("/")[0]
    return room if room in MAY_REACH else None


def inside(path, folders):
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def broken_rule(source, target):
    """The reason why something in folder or file `source` must not reach `target`, or None when it may."""
    room, reached = room_of(source), room_of(target)
    if room is None or reached is None or reached in MAY_REACH[room]:
        return None
    return WHY["distributed"] if reached in ("examples", "tests") else WHY[room]


def broken_library_rule(source, library):
    """The same for a third-party library by its name in third_party/BUILD."""
    if library not in LIBRARY_USERS or room_of(source) is None:
        return None
    folders, why = LIBRARY_USERS[library]
    return None if inside(source, folders) else why


def run(cases):
    """Runs (name, function returning a list of complaints), reports like googletest, returns an exit code."""
    failed = 0
    for name, check in cases:
        complaints = check()
        for complaint in complaints:
            print(complaint)
        failed += bool(complaints)
        print("[%s] %s (0 ms)" % ("  FAILED  " if complaints else "       OK ", name))
    return 1 if failed else 0
