"""How long the first answer takes: `import adacorr` and `adacorr --help` beside `import numpy`.

python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys
import time

COMMANDS = {
    "import numpy": [sys.executable, "-c", "import numpy"],
    "import adacorr": [sys.executable, "-c", "import adacorr"],
    "adacorr --help": [sys.executable, "-m", "adacorr", "--help"],
}
TARGETS = {"import adacorr": 2.5, "adacorr --help": 4.0}
TURNS = 15


def main() -> None:
    best = dict.fromkeys(COMMANDS, float("inf"))
    for _ in range(TURNS):  # in turns, so that a disturbance hits all
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            best[name] = min(best[name], time.perf_counter() - began)
    base = best["import numpy"]
    print(f"{'':<18}{'seconds':>9}{'ratio':>8}   (best of {TURNS}, whole process)")
    for name, seconds in best.items():
        ratio, target = seconds / base, TARGETS.get(name)
        note = (
            ""
            if target is None
            else f"   target <= {target:g}: {'ok' if ratio <= target else 'MISS'}"
        )
        print(f"{name:<18}{seconds:>9.3f}{ratio:>8.2f}{note}")


if __name__ == "__main__":
    main()
