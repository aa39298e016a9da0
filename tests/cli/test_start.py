"""The command before it is loaded."""

import subprocess
import sys

LOADING = """
import sys
from adacorr.__main__ import main

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "cyclopts":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
main()
"""


def test_an_interrupt_while_it_loads_is_one_line():
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "adacorr: interrupted; nothing half-written was left behind\n"
