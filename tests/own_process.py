"""Scripts in a process of their own: what crashes there fails one test."""

import os
import subprocess
import sys


def printed(module, *arguments, options=()):
    """What a script prints but for its last line, by the compiler that ships, not that of the tests."""
    shipped = {name: value for name, value in os.environ.items() if name != "PYTENSOR_FLAGS"}
    command = [sys.executable, *options, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False, env=shipped)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    *lines, last = done.stdout.splitlines()
    assert last == "to the end"
    return lines
