"""docs/reliability.md from the figures that ``make hard`` has left in results/hard.json.

    python tests/hard/summary.py

Only what stands between the two markers of the page is written; the words around it stay.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "results" / "hard.json"
BEGIN, END = "<!-- figures: made by make hard -->", "<!-- end of figures -->"
KINDS = {
    "csv": "CSV, plain and packed",
    "parquet": "parquet",
    "npy": "npy",
    "npz": "npz",
    "toml": "settings and grids (TOML)",
    "run": "run directories",
    "http": "requests to the review server",
}


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Markdown; whole numbers get separators."""
    cells = [
        [f"{c:,}" if isinstance(c, int) and not isinstance(c, bool) else str(c) for c in row]
        for row in rows
    ]
    lines = [head, tuple("---" for _ in head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def run(r: dict[str, Any]) -> str:
    failed = "none failed" if not r["failed"] else f"**{r['failed']} failed**"
    return (
        f"Run of {r['date']}: adacorr {r['adacorr']}, Python {r['python']}, {r['cores']} cores "
        f"(average load {r['load']}, other work included), {r['minutes']} minutes, "
        f"{r['tests']} tests, {failed}.\n"
    )


def kills(r: dict[str, Any]) -> str:
    rows = [
        (
            "`fit`",
            r["fit"],
            f"{r['fit_runs']} runs, each equal to the undisturbed one, bit for bit",
        ),
        (
            "`bench run`",
            r["bench_run"],
            f"{r['bench_run_runs']} grids with the undisturbed records",
        ),
        ("`correct`", r["correct"], "the undisturbed tables, run directories and reports"),
        (
            "`review`",
            r["review"],
            f"{r['review_confirmed']:,} decisions confirmed, none lost; "
            f"{r['review_saved_unconfirmed']} saved whose answer died with the server",
        ),
    ]
    total = sum(row[1] for row in rows)
    rows.append(("all", total, "no file half written, no input touched"))
    return table(("command", "SIGKILLs", "after the restart"), rows)


def fuzz(r: dict[str, Any]) -> str:
    rows = [
        (title, r[kind]["refused"], r[kind].get("accepted", 0)) for kind, title in KINDS.items()
    ]
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    most = max(r[kind].get("peak_growth_mb", 0) for kind in KINDS)
    return (
        table(("input", "malformed, refused in one line", "still sound, accepted"), rows)
        + f"\nMemory grew by at most {most} MB over all inputs of a kind. Of "
        f"{r['refused_pickles_and_bombs']} files made to harm (pickles in npy, npz, parquet and "
        f"weights; torch pickles; zip and gzip bombs of 4 GB), all were refused, nothing in them "
        f"was run, and memory grew by {r['harmful_peak_mb']} MB.\n"
    )


def faults(r: dict[str, Any]) -> str:
    review = r["disk_full_review"]
    memory = (
        f"{r['memory_rows']:,} rows ({r['memory_input_mb']} MB of parquet) corrected in "
        f"{r['memory_seconds']} s; the process had {r['memory_peak_mb']} MB"
    )
    rows = [
        (f"disk full ({r['disk_full']}), `correct`", "one line, no output, input untouched"),
        ("disk full, `fit`", r["disk_full_fit"]),
        (
            "disk full, `review`",
            f"{review['confirmed']} decisions confirmed and kept, {review['refused']} refused with "
            f'"not saved", {review["lost"]} lost',
        ),
        (f"{r['read_only']}", f"{r['read_only_commands']} commands, one line each"),
        ("input removed while `correct` reads it", r["input_removed"]),
        ("picture removed while `fit` reads it", r["pictures_removed"]),
        ("wall clock jumps by decades at every look", r["clock_jumps"]),
        (f"memory limit: {r['memory_limit']}", memory),
        ("a data worker slow, or killed", r["data_workers"]),
        ("a training process killed", r["killed_rank"]),
        ("two runs on one run directory", r["two_runs"]),
    ]
    return table(("fault", "what happens"), rows)


def load(r: dict[str, Any]) -> str:
    rows = [
        ("clients at once, none of them pausing", r["clients"]),
        ("seconds", int(r["seconds"])),
        ("requests answered", r["requests"]),
        ("decisions confirmed", r["decisions"]),
        ("decisions lost, duplicated", f"{r['lost']}, {r['duplicated']}"),
        ("time to a confirmed decision, median", f"{r['decide_p50_ms']} ms"),
        ("time to a confirmed decision, 99th percentile", f"{r['decide_p99_ms']} ms"),
        ("all requests, 99th percentile", f"{r['all_p99_ms']} ms"),
        ("security checks of the same server meanwhile", f"{r['security_checks']}, all held"),
    ]
    return table(("review server", "figure"), rows)


def supply(r: dict[str, Any]) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(r["licences"].items()))
    rows = [
        ("packages pinned (`constraints.txt`)", r["pinned"]),
        ("of these with SHA-256 (`constraints-hashes.txt`; all but torch)", r["hashed"]),
        ("drawn by lot and checked by pip", r["hashes_checked_by_pip"]),
        ("known vulnerabilities (pip-audit)", r["audit"]),
        ("licences", kinds),
    ]
    return table(("supply chain", "figure"), rows)


def figures(results: dict[str, dict[str, Any]]) -> str:
    parts = [
        run(results["run"]),
        "### Kills\n",
        kills(results["kills"]),
        "### Malformed input\n",
        fuzz(results["fuzz"]),
        "### Faults\n",
        faults(results["faults"]),
        "### Load\n",
        load(results["review_load"]),
        "### Supply chain\n",
        supply(results["supply_chain"]),
    ]
    return "\n".join(parts)


def main() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    made = figures(json.loads(RESULTS.read_text(encoding="utf-8")))
    PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
