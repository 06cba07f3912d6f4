"""The command `weir` that a wheel carries in this package. Imports nothing: the command `weir` of a wheel starts in no time."""
import os

PACKAGE = os.path.dirname(os.path.abspath(__file__))
COMMAND = os.path.join(PACKAGE, "bin", "weir")


def environment(command):
    """Of a process that runs `command`: the libraries in this package are for the command in it, and not for the programs
    that it starts, so it is told which they are (distributed/command/main.cc)."""
    result = dict(os.environ)
    libraries = os.path.join(PACKAGE, "lib")
    if command == COMMAND and os.path.isdir(libraries):
        result["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [libraries, result.get("LD_LIBRARY_PATH")]))
        result["WEIR_OWN_LIBRARIES"] = libraries
    return result
