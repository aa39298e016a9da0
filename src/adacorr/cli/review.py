"""``adacorr review``: the page for signing off, and the final labels."""

from __future__ import annotations

import json as json_lib
from pathlib import Path
from typing import Literal


def review(
    run: Path,
    *,
    export: Path | None = None,
    overwrite: bool = False,
    unreviewed: Literal["keep", "accept"] = "keep",
    host: str = "127.0.0.1",
    port: int = 8350,
    browser: bool = True,
    target: float = 0.05,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Accept or reject the proposed changes of a run in the browser, or export the result.

    Parameters
    ----------
    run
        A run directory, from `adacorr fit` or `adacorr correct --run-dir`.
    export
        Write the final labels to this .parquet or .csv file instead of opening the page.
    overwrite
        Replace an export file that exists.
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
    json
        Print the page's address, or where the export went, as JSON.
    quiet
        Print nothing but errors; the page opens in the browser.
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
            say=_silent if quiet or json else _say,
            ready=_as_json if json else _silent,
        )
        return
    from adacorr.cli.outputs import check_new, files_of
    from adacorr.review import export as write
    from adacorr.review import open_review
    from adacorr.review.export import applied_labels, decisions

    check_new(export, overwrite, *files_of(run))
    data, store = open_review(Run.open(run))
    try:
        path, counts = write(data, store, export, unreviewed), decisions(store)
        applied = applied_labels(data) is not None
    finally:
        store.close()
    if json:
        print(json_lib.dumps({"export": str(path), **counts}))
    elif not quiet:
        print(path)
        kept = (
            "as the applied rule says" if applied
            else "taken" if unreviewed == "accept"
            else "kept as given; --unreviewed accept takes them"
        )  # fmt: skip
        told = [f"{n:,} {name}" for name, n in counts.items()]
        print(f"changes: {', '.join(told)}" + (f" ({kept})" if counts["unreviewed"] else ""))


def _say(line: str) -> None:
    print(line, flush=True)


def _as_json(address: str) -> None:
    print(json_lib.dumps({"address": address}), flush=True)


def _silent(line: str) -> None:
    pass
