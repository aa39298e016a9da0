"""What a notebook shows of labels in doubt: sentences and a small table, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from adacorr.runs.words import chance

if TYPE_CHECKING:
    from adacorr.runs.directory import Run

SHOWN = 10
HEAD = ("row", "given", "suggestion", "suspicion", "")
_CELL = 'style="text-align:left"'


def suspects_html(
    said: str,
    warnings: Iterable[str],
    rows: Sequence[Sequence[object]],
    head: Sequence[str] = HEAD,
    pictures: Sequence[str] = (),
) -> str:
    """Sentences, then a row per suspect; every text is escaped.

    Parameters
    ----------
    said, warnings : plain sentences; the warnings in bold.
    rows : cells in the order of `head`.
    pictures : a PNG per row in base64, shown in front; empty where there is none.

    >>> "&lt;b&gt;" in suspects_html("1 label", [], [(7, "<b>", "cat", "62%", "changed")])
    True
    """
    lines = [f"<p>{escape(said)}</p>"]
    lines += [f"<p><strong>{escape(line)}</strong></p>" for line in warnings]
    if not rows:
        return "".join(lines)
    names = ["", *head] if pictures else list(head)
    titles = "".join(f"<th {_CELL}>{escape(name)}</th>" for name in names)
    body = []
    for place, row in enumerate(rows):
        cells = [f"<td {_CELL}>{escape(str(cell))}</td>" for cell in row]
        if pictures:
            image = f'<img src="data:image/png;base64,{pictures[place]}" alt="row {row[0]}">'
            cells.insert(0, f"<td>{image if pictures[place] else ''}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f"{''.join(lines)}<table><thead><tr>{titles}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def run_html(run: Run) -> str:
    """A run directory: what it says of itself, and its most suspicious labels."""
    from adacorr.runs.reader import RunData

    data = RunData.open(run)
    names, found, changed = data.class_names, [], 0
    for batch in data.batches(texts=True):
        changed += int(batch.flipped.sum())
        doubt = np.nan_to_num(batch.doubt)
        for i in np.argsort(-doubt, kind="stable")[:SHOWN].tolist():
            other = int(batch.other[i])
            found.append(
                (
                    float(doubt[i]),
                    batch.id[i] if batch.id else int(batch.index[i]),
                    names[batch.given[i]],
                    names[other] if other >= 0 else "",
                    state(bool(batch.flipped[i])),
                )
            )
    found.sort(key=lambda row: -row[0])
    rows = [(n, g, o, chance(d, data.n) or "", s) for d, n, g, o, s in found[:SHOWN]]
    note = data.section("result").get("note")
    said = f"{run.path}: {changed:,} of {data.n:,} labels changed"
    return suspects_html(f"{said}, {note}" if isinstance(note, str) else said, (), rows)


def state(changed: bool) -> str:
    return "changed" if changed else "not changed"
