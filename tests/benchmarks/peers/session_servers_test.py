#!/usr/bin/env python3
"""Servers that started must not be left when a later one does not start. No TensorFlow is needed."""
import os
import stat
import tempfile
import unittest

import session_servers

# Task 0 serves, and leaves its process number; task 1 ends.
PROGRAM = """#!/bin/sh
case "$*" in *--task_index=1*) exit 1;; esac
echo $$ > {directory}/started
echo serving
exec sleep 600
"""


class SessionServersTest(unittest.TestCase):
    def test_a_server_that_does_not_start_leaves_none(self):
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as directory:
            program = os.path.join(directory, "weir")
            with open(program, "w") as file:
                file.write(PROGRAM.format(directory=directory))
            os.chmod(program, stat.S_IRWXU)
            servers = session_servers.SessionServers(program, {"worker": 2}, ["weir"])
            with self.assertRaises(AssertionError):
                with servers:
                    self.fail("there are two servers")
            with open(os.path.join(directory, "started")) as file:
                first = int(file.read())
            try:
                with self.assertRaises(ProcessLookupError):
                    os.kill(first, 0)
            finally:
                servers.__exit__()


if __name__ == "__main__":
    unittest.main()
