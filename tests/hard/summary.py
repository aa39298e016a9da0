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
GAP, NO_FIGURE = "\N{EN DASH}", "no figure: the test did not run or did not pass"
KINDS = {
    "csv": "CSV, plain and packed",
    "parquet": "parquet",
    "npy": "npy",
    "npz": "npz",
    "toml": "settings and grids (TOML)",
    "run": "run directories",
    "answers": "answers of people (JSON, JSON lines, CSV)",
    "http": "requests to the review server",
}


class Gap:
    """Stands for a figure that a failed test did not leave, and for all that is asked of it."""

    def __getitem__(self, key: str) -> Gap:
        return self

    def get(self, key: str, default: object = None) -> Gap:
        return self

    def __format__(self, spec: str) -> str:
        return GAP

    __str__ = __repr__ = lambda self: GAP


class Figures(dict[str, Any]):
    def __missing__(self, key: str) -> Gap:
        return Gap()


def total(values: list[Any]) -> Any:
    return Gap() if any(isinstance(value, Gap) for value in values) else sum(values)


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Markdown; whole numbers get separators, and a row that lacks a figure claims nothing."""
    cells = [
        [f"{c:,}" if isinstance(c, int) and not isinstance(c, bool) else str(c) for c in row]
        for row in rows
    ]
    cells = [
        row if not any(GAP in cell for cell in row) else [row[0], NO_FIGURE, *("" for _ in row[2:])]
        for row in cells
    ]
    lines = [head, tuple("---" for _ in head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def listed(tests: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in tests)


def run(r: dict[str, Any] | Gap) -> str:
    if isinstance(r, Gap):
        return "**The run did not come to its end**; these are the figures up to there.\n"
    failed = f"**{len(r['failed'])} failed**" if r["failed"] else "none failed"
    said = (
        f"Run of {r['date']}: adacorr {r['adacorr']}, Python {r['python']}, {r['cores']} cores "
        f"(average load {r['load']}, other work included), {r['minutes']} minutes, "
        f"{r['tests']} tests, {failed}.\n"
    )
    if r["not_run"]:
        said += f"\n**It was stopped: {r['not_run']} tests were not run.**\n"
    for word, tests in (("Failed", r["failed"]), ("Skipped", r["skipped"])):
        said += f"\n{word}: {listed(tests)}.\n" if tests else ""
    return said


def kills(r: dict[str, Any] | Gap) -> str:
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
    rows.append(("all", total([row[1] for row in rows]), "no file half written, no input touched"))
    return table(("command", "SIGKILLs", "after the restart"), rows)


def fuzz(r: dict[str, Any] | Gap) -> str:
    rows = [
        (title, r[kind]["refused"], r[kind].get("accepted", 0), r[kind]["peak_growth_mb"])
        for kind, title in KINDS.items()
    ]
    sums = (total([row[i] for row in rows]) for i in (1, 2))
    harmful = (
        f"Of {r['refused_pickles_and_bombs']} files made to harm (pickles in npy, npz, parquet and "
        f"weights; torch pickles; zip and gzip bombs of 4 GB), all were refused, nothing in them "
        f"was run, and memory grew by {r['harmful_peak_mb']} MB.\n"
    )
    head = (
        "input",
        "malformed, refused in one line",
        "still sound, accepted",
        "memory grew by, MB",
    )
    return (
        table(head, [*rows, ("all", *sums, "")])
        + "\n"
        + (harmful if GAP not in harmful else f"Files made to harm: {NO_FIGURE}.\n")
    )


def faults(r: dict[str, Any] | Gap) -> str:
    review = r["disk_full_review"]
    memory = (
        f"{r['memory_limit']}: {r['memory_rows']:,} rows ({r['memory_input_mb']} MB of parquet) "
        f"corrected in {r['memory_seconds']} s; the process had {r['memory_peak_mb']} MB"
    )
    rows = [
        ("disk full, `correct`", f"{r['disk_full']}: one line, no output, input untouched"),
        ("disk full, `fit`", r["disk_full_fit"]),
        (
            "disk full, `review`",
            f"{review['confirmed']} decisions confirmed and kept, {review['refused']} refused with "
            f'"not saved", {review["lost"]} lost',
        ),
        (
            "folder read-only",
            f"{r['read_only']}: {r['read_only_commands']} commands, one line each",
        ),
        ("input removed while `correct` reads it", r["input_removed"]),
        ("picture removed while `fit` reads it", r["pictures_removed"]),
        ("wall clock jumps by decades at every look", r["clock_jumps"]),
        ("memory limit", memory),
        ("a data worker slow, or killed", r["data_workers"]),
        ("a training process killed", r["killed_rank"]),
        ("two runs on one run directory", r["two_runs"]),
    ]
    return table(("fault", "what happens"), rows)


def damage(bits: dict[str, Any] | Gap, power: dict[str, Any] | Gap) -> str:
    names = (
        "config.toml",
        "labels.parquet",
        "pred_probs.npy",
        "model.safetensors",
        "review.sqlite",
    )
    rows = [(f"`{name}`", bits[name]["refused"], bits[name]["harmless"]) for name in names]
    sums = (total([row[i] for row in rows]) for i in (1, 2))
    head = ("a bit flipped in", "refused in one line", "result unchanged")
    power_rows = [
        ("`correct` with three outputs", power["correct"]),
        ("`correct` on a folder", power["folder"]),
        ("`fit`", power["fit"]),
    ]
    return (
        table(head, [*rows, ("all", *sums)])
        + "\n"
        + table(
            ("power loss after", "files, each on the disk before and with its name"), power_rows
        )
    )


def foreign(r: dict[str, Any] | Gap) -> str:
    rows = [
        ("code named by a run, refused", r["code_refused"]),
        ("encoders and models named by a run of `clean`, refused", r["encoders_refused"]),
        ("code named by an `adacorr.toml` that nobody named, refused", r["settings_refused"]),
        ("links in a run, nothing outside written", r["links_harmless"]),
        (
            "links in a run of `clean` that goes on, nothing outside written",
            r["clean_links_harmless"],
        ),
        ("asked of the ports of `--engine dask`, nothing answered", r["cluster_asked"]),
    ]
    return table(("what does not belong", "experiments"), rows)


def identity(r: dict[str, Any] | Gap) -> str:
    kinds = ("csv", "csv, with ids", "parquet", "parquet, with ids")
    rows = [(kind, r[kind]["samples"], 0, r[kind]["answers_refused"]) for kind in kinds]
    sums = (total([row[i] for row in rows]) for i in (1, 2, 3))
    head = (
        "source changed after the run",
        "samples asked for",
        "another's shown",
        "files of answers refused",
    )
    return table(head, [*rows, ("all", *sums)])


def huge(r: dict[str, Any] | Gap) -> str:
    if isinstance(r, Gap):
        return f"{NO_FIGURE}.\n"
    rows = [
        (name, f["bytes"], "refused in one line" if f["code"] else "done", f["peak_mb"])
        for name, f in sorted(r.items(), key=lambda item: (-item[1]["code"], item[0]))
    ]
    return table(("file", "bytes", "what happens", "memory of the command, MB"), rows)


def load(r: dict[str, Any] | Gap) -> str:
    rows = [
        ("clients at once, none of them pausing", r["clients"]),
        ("seconds", f"{r['seconds']:.0f}"),
        ("requests answered", r["requests"]),
        ("decisions confirmed", r["decisions"]),
        ("decisions lost, duplicated", f"{r['lost']}, {r['duplicated']}"),
        ("time to a confirmed decision, median", f"{r['decide_p50_ms']} ms"),
        ("time to a confirmed decision, 99th percentile", f"{r['decide_p99_ms']} ms"),
        ("all requests, 99th percentile", f"{r['all_p99_ms']} ms"),
        ("connections of a crowd that only waits", r["crowd"]),
        ("visitors served in the crowd, of 20", r["served_in_the_crowd"]),
        ("security checks of the same server meanwhile", f"{r['security_checks']:,}, all held"),
        ("the review's own security tests meanwhile", f"{r['security_tests']} passed"),
    ]
    return table(("review server", "figure"), rows)


def numerical(r: dict[str, Any] | Gap) -> str:
    rows = [
        ("tests of `correct` at the edge (below)", f"{r['passed']} passed, {r['failed']} failed")
    ]
    return table(("numerical", "figure"), rows)


def supply(r: dict[str, Any] | Gap) -> str:
    licences = r["licences"]
    kinds = licences if isinstance(licences, Gap) else sorted(licences.items())
    kinds = kinds if isinstance(kinds, Gap) else ", ".join(f"{n} {kind}" for kind, n in kinds)
    rows = [
        ("packages pinned (`constraints.txt`)", r["pinned"]),
        ("of these with SHA-256 (`constraints-hashes.txt`; all but torch)", r["hashed"]),
        ("drawn by lot and checked by pip", r["hashes_checked_by_pip"]),
        ("known vulnerabilities (pip-audit)", r["audit"]),
        ("licences", kinds),
    ]
    return table(("supply chain", "figure"), rows)


def figures(results: Figures) -> str:
    parts = [
        run(results["run"]),
        "### Kills\n",
        kills(results["kills"]),
        "### Malformed input\n",
        fuzz(results["fuzz"]),
        "### Small and huge\n",
        huge(results["huge"]),
        "### Damage\n",
        damage(results["bits"], results["power_loss"]),
        "### Runs from elsewhere\n",
        foreign(results["foreign"]),
        "### Rows of a changed source\n",
        identity(results["identity"]),
        "### Faults\n",
        faults(results["faults"]),
        "### Load\n",
        load(results["review_load"]),
        "### Numbers at the edge\n",
        numerical(results["numerical"]),
        "### Supply chain\n",
        supply(results["supply_chain"]),
    ]
    return "\n".join(parts)


def main() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "{}"
    made = figures(json.loads(text, object_hook=Figures))
    PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
