"""A Slurm step means the same cluster to us as to TensorFlow's SlurmClusterResolver.

usage: slurm_resolver_test.py TASK_PRINTER DIRECTORY
"""
import json
import os
import random
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from tensorflow.python.distribute.cluster_resolver import slurm_cluster_resolver

TASK_PRINTER = sys.argv[1]


def ours(variables):
    """TF_CONFIG of this environment, or the error."""
    run = subprocess.run([TASK_PRINTER], env=variables, capture_output=True, text=True)
    return json.loads(run.stdout) if run.returncode == 0 else run.stderr.strip()


def theirs(variables, num_ps):
    saved = dict(os.environ)
    os.environ.update(variables)
    try:
        size = int(variables["SLURM_STEP_NUM_TASKS"])
        # Jobs without tasks would be jobs without addresses.
        jobs = {job: count for job, count in (("ps", num_ps), ("worker", size - num_ps)) if count}
        resolver = slurm_cluster_resolver.SlurmClusterResolver(
            jobs=jobs, port_base=int(variables["WEIR_PORT_BASE"]), gpus_per_node=size, gpus_per_task=1, auto_set_gpu=False)
        cluster = resolver.cluster_spec().as_dict()
        job, index = resolver.get_task_info()
        return {"cluster": cluster, "task": {"type": job, "index": index}}
    finally:
        os.environ.clear()
        os.environ.update(saved)


def random_step(rng):
    """The variables of one task of a step on nodes in the order in which TensorFlow sorts them, by name; Slurm lists them so."""
    first, nodes = rng.randrange(0, 120), rng.randrange(1, 5)
    counts = [rng.randrange(1, 4) for _ in range(nodes)]
    names = "n[%03d-%03d]" % (first, first + nodes - 2) if nodes > 2 else ",".join("n%03d" % (first + i) for i in range(nodes - 1))
    names = ",".join(filter(None, [names, "x7"]))
    rank = rng.randrange(sum(counts))
    node = next(i for i in range(nodes) if rank < sum(counts[:i + 1]))
    return {
        "SLURM_PROCID": str(rank), "SLURM_NODEID": str(node), "SLURM_LOCALID": str(rank - sum(counts[:node])),
        "SLURM_STEP_NUM_TASKS": str(sum(counts)), "SLURM_STEP_NODELIST": names,
        "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, counts)), "WEIR_PORT_BASE": str(rng.randrange(1024, 60000)),
    }


def test_random_steps():
    rng = random.Random(5)
    complaints = []
    for _ in range(200):
        variables = random_step(rng)
        size = int(variables["SLURM_STEP_NUM_TASKS"])
        num_ps = rng.randrange(size)
        if size == 1:
            continue  # alone for us, a cluster of one for TensorFlow
        found, wanted = ours(dict(variables, WEIR_NUM_PS=str(num_ps))), theirs(variables, num_ps)
        if found != wanted:
            complaints.append("%s: %s, TensorFlow says %s" % (variables, found, wanted))
    return complaints


def test_lists_of_hosts():
    """What TensorFlow expands we expand alike; what it refuses we refuse."""
    complaints = []
    for names in ("n[1-2],m5,o[3-4,6,7-9]", "n[001-003,007],gpu1", "a", "a-b.c_d", "n[9-11]", "n[08-10]", "n[1-2", "n[1-2]]",
                  "n[]", "n[a]", "n[1-2-3]", ",a", "n[1,]"):
        try:
            wanted = slurm_cluster_resolver.expand_hostlist(names)
        except (ValueError, AssertionError):
            wanted = None
        count = len(wanted or ["x"])
        found = ours({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": str(count + 1), "SLURM_STEP_NODELIST": names,
                      "SLURM_STEP_TASKS_PER_NODE": ",".join(["2"] + ["1"] * (count - 1)), "WEIR_NUM_PS": "0"})
        if wanted is None:
            expected = isinstance(found, str)
        else:
            expected = not isinstance(found, str) and list(dict.fromkeys(
                address.rsplit(":", 1)[0] for address in found["cluster"]["worker"])) == wanted
        if not expected:
            complaints.append("%r: %s, TensorFlow says %s" % (names, found, wanted))
    return complaints


if __name__ == "__main__":
    failed = 0
    for test in (test_random_steps, test_lists_of_hosts):
        found = test()
        failed += bool(found)
        print("\n".join(found[:20] + ["[%s] tests/interop:%s (0 ms)" % ("  FAILED  " if found else "       OK ", test.__name__[5:])]))
    sys.exit(1 if failed else 0)
