"""`tf.train.Server` as a server of Weir, in a process of its own that lives no longer than this one."""
import sys

import tensorflow as tf

from weir_tf.weir_process import WeirProcess


def _server_def(server_or_cluster_def, job_name, task_index, protocol, config):
    """The tf.train.ServerDef of the arguments of tf.train.Server, which mean what TensorFlow's documentation says."""
    result = tf.train.ServerDef()
    if isinstance(server_or_cluster_def, tf.train.ServerDef):
        result.CopyFrom(server_or_cluster_def)
    else:
        cluster = tf.train.ClusterSpec(server_or_cluster_def)
        if job_name is None and len(cluster.jobs) != 1:
            raise ValueError("job_name is missing: the cluster has the jobs %s" % ", ".join(cluster.jobs))
        result.cluster.CopyFrom(cluster.as_cluster_def())
        result.job_name = cluster.jobs[0]
        if task_index is None:
            indices = cluster.task_indices(job_name or result.job_name)
            if len(indices) != 1:
                raise ValueError("task_index is missing: job %r has the tasks %s" % (job_name or result.job_name, indices))
            result.task_index = indices[0]
    if job_name is not None:
        result.job_name = job_name
    if task_index is not None:
        result.task_index = task_index
    result.protocol = protocol or result.protocol or "grpc"
    if config is not None:
        result.default_session_config.MergeFrom(config)
    _check_task(result)
    return result


def _check_task(server_def):
    """With the errors of TensorFlow's server."""
    tasks = [job.tasks for job in server_def.cluster.job if job.name == server_def.job_name]
    if not tasks:
        raise tf.errors.InternalError(None, None, 'Job "%s" was not defined in cluster' % server_def.job_name)
    if server_def.task_index not in tasks[0]:
        raise tf.errors.InternalError(None, None, 'Task %d was not defined in job "%s"' % (server_def.task_index, server_def.job_name))


class Server:
    """The interface of tf.compat.v1.train.Server.

    `config` counts for the number of CPU devices and of threads; sessions bring the rest themselves. `protocol`
    must be "grpc". A server of a cluster of one task ends with this object, any other with the program: what
    the others of the cluster hear then is whether the program has done its work (program_end.py).

    Raises ValueError for arguments that contradict each other, tf.errors.InternalError for a task that the cluster
    does not have, and tf.errors.UnknownError with the last line that the server printed when it does not start.
    """

    def __init__(self, server_or_cluster_def, job_name=None, task_index=None, protocol=None, config=None, start=True):
        self._process = None
        self._server_def = _server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        self._process = WeirProcess(self._server_def)
        if start:
            self.start()

    def __del__(self):
        process = getattr(self, "_process", None)
        if process is not None and process.is_alone:
            process.end(is_done=True)

    def start(self):
        """Starts the server; it serves when this returns. A second call does nothing."""
        self._process.start()

    def join(self):
        """Does not return, as TensorFlow's does not: ends the program (the thread that calls it) with exit code 0 when the
        server ends, as a parameter server does when all workers have ended well.

        Raises tf.errors.AbortedError when it ended in another way.
        """
        self._process.join()
        sys.exit(0)

    @property
    def server_def(self):
        return self._server_def

    @property
    def target(self):
        """The `target` of a tf.compat.v1.Session on this server, grpc://host:port. FailedPreconditionError before start()."""
        return self._process.target()

    @staticmethod
    def create_local_server(config=None, start=True):
        """A server of its own on loopback, on a free port."""
        return Server(tf.train.ServerDef(cluster=tf.train.ClusterSpec({"localhost": ["127.0.0.1:0"]}).as_cluster_def(), job_name="localhost",
                                         protocol="grpc"), config=config, start=start)
