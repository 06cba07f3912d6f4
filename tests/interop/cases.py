"""Runs the cases of a script: its functions whose names begin with test_, each with one line in googletest's form."""
import os
import sys
import time
import traceback


class Skip(Exception):
    """The packages at hand do not allow this case."""


def run(namespace, call=lambda case, name: case()):
    """Calls every case of the script whose globals() these are; returns the exit code, 1 when one fails."""
    failed = 0
    for name, case in sorted(namespace.items()):
        if not name.startswith("test_"):
            continue
        begin, reason = time.monotonic(), ""
        try:
            call(case, name)
            outcome = "       OK "
        except Skip as skipped:
            outcome, reason = "  SKIPPED ", f" {skipped}"
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc()
            outcome, failed = "  FAILED  ", failed + 1
        milliseconds = 1000 * (time.monotonic() - begin)
        print(f"[{outcome}] tests/interop:{name[len('test_'):]}{reason} ({milliseconds:.0f} ms)", flush=True)
    return 1 if failed else 0


def run_in_folders(namespace):
    """Calls case(TOOL, FOLDER) as run() does, each with a new folder. The script's arguments are TOOL and where the folders go."""
    tool, directory = sys.argv[1:]

    def call(case, name):
        folder = os.path.join(directory, name)
        os.mkdir(folder)
        case(tool, folder)

    return run(namespace, call)
