"""``adacorr review``: the page for signing off, and the final labels."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from adacorr.cli.options import NEW, TEXT, Outputs, Printing


def review(
    run: Path,
    *,
    export: Path | None = None,
    outputs: Outputs = NEW,
    unreviewed: Literal["keep", "accept"] = "keep",
    host: str = "127.0.0.1",
    port: int = 8350,
    browser: bool = True,
    target: float = 0.05,
    printing: Printing = TEXT,
) -> None:
    """Accept or reject the proposed changes of a run in the browser, or export the result.

    Parameters
    ----------
    run
        A run directory, from `adacorr clean`, `fit` or `correct --run-dir`.
    export
        Write the final labels to this .parquet or .csv file instead of opening the page.
    unreviewed
        In the export, "keep" the given label of changes that nobody decided, or "accept" them. Once
        the page has applied a rule, its labels stand there.
    host
        Where to listen. The printed address holds a token that the first visit needs.
    port
        Port to listen on; 0 takes any free one.
    browser
        Open the page in the browser.
    target
        The share of wrong changes that the audit panel counts towards.
    """
    from adacorr.runs.directory import Run

    if export is None:
        from adacorr.review import serve

        serve(
            Run.open(run),
            host,
            port,
            browser=browser,
            target=target,
            say=printing.say,
            ready=lambda address: printing.result({"address": address}, ""),
        )
        return
    from adacorr.cli.outputs import files_of
    from adacorr.review import export as write
    from adacorr.review import open_review
    from adacorr.review.export import applied_labels, decisions

    outputs.check(export, *files_of(run))
    data, store = open_review(Run.open(run))
    try:
        note, counts = write(data, store, export, unreviewed), decisions(store)
        applied = applied_labels(data) is not None
    finally:
        store.close()
    kept = (
        "as the applied rule says" if applied
        else "taken" if unreviewed == "accept"
        else "kept as given; --unreviewed accept takes them"
    )  # fmt: skip
    told = ", ".join(f"{n:,} {name}" for name, n in counts.items())
    more = f" ({kept})" if counts["unreviewed"] else ""
    lines = [str(export), f"changes: {told}{more}", *([note] if note else [])]
    printing.result({"export": str(export), **counts}, lines)
