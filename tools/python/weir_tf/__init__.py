"""Weir under unmodified TensorFlow 1 programs: `tf.compat.v1.train.Server` becomes a server of Weir.

    import weir_tf
    weir_tf.install()

before the program makes its server, or without any change `python -m weir_tf PROGRAM [ARGUMENTS]`. What is
made with the name afterwards, also by TensorFlow itself, starts the command `weir serve` and gives its
address as `target`. docs/migrating_from_tf1.md says what differs.

The command is, in this order: what install() is told, $WEIR_COMMAND, the one in this package (a wheel has
one), `weir` in $PATH. One that is told and is not there is an error. Its environment variables (WEIR_JOB_TOKEN, WEIR_LISTEN...) count as always.
"""
from weir_tf.replacement import install, uninstall
from weir_tf.server import Server

__all__ = ["Server", "install", "uninstall"]
