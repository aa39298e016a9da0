"""Records -> the paper's table: datasets x methods down, noise across, mean and deviation."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from adacorr.core.validation import InputError
from adacorr.paper.bench.records import Record

Format = Literal["text", "markdown", "latex", "csv"]
Value = Literal["test_accuracy", "label_accuracy"]
At = Literal["last", "selected"]


def value_at(record: Record, value: Value, at: At) -> float | None:
    """A curve of the record at its last epoch, or at the one that (noisy) validation selected.

    >>> record = {"curves": {"test_accuracy": [0.7, 0.8, 0.6]}, "selected_epoch": 2}
    >>> value_at(record, "test_accuracy", "last"), value_at(record, "test_accuracy", "selected")
    (0.6, 0.8)
    """
    curve = record["curves"].get(value)
    if not curve:
        return None
    return float(curve[-1] if at == "last" else curve[record["selected_epoch"] - 1])


@dataclass(frozen=True)
class Score:
    """Mean and standard deviation of a value over the seeds of one cell of the table."""

    mean: float
    std: float
    n: int


@dataclass(frozen=True)
class Table:
    """``entries[dataset, method, noise]``; absent where no record is."""

    datasets: list[str]
    methods: list[str]
    noise: list[str]
    entries: dict[tuple[str, str, str], Score]

    def best(self, dataset: str, noise: str) -> float | None:
        means = [
            self.entries[key].mean
            for m in self.methods
            if (key := (dataset, m, noise)) in self.entries
        ]
        return max(means) if len(means) > 1 else None

    def ranks(self) -> dict[str, float]:
        """Average rank (1 is best) of the methods that have every column most methods have."""
        columns = [
            (dataset, noise)
            for dataset in self.datasets
            for noise in self.noise
            if 2 * sum((dataset, m, noise) in self.entries for m in self.methods)
            > len(self.methods)
        ]
        whole = [m for m in self.methods if all((d, m, n) in self.entries for d, n in columns)]
        if not columns:
            return {}
        rows = [_rank([-self.entries[d, m, n].mean for m in whole]) for d, n in columns]
        return dict(zip(whole, np.mean(rows, axis=0).tolist(), strict=True))


def _rank(values: Sequence[float]) -> list[float]:
    v = np.asarray(values)
    return [float((v < x).sum() + ((v == x).sum() + 1) / 2) for x in v]


def build_table(
    records: Sequence[Record], value: Value = "test_accuracy", at: At = "last"
) -> Table:
    """Group records by (dataset, method, noise) and average :func:`value_at`, a fraction."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for record in records:
        number = value_at(record, value, at)
        if number is not None:
            key = (record["dataset"], record["method"], record["noise"])
            groups.setdefault(key, []).append(number)
    if not groups:
        raise InputError(f"records: expected some with {value}, got none")
    entries = {
        key: Score(
            mean=100 * float(np.mean(v)),
            std=100 * float(np.std(v, ddof=1)) if len(v) > 1 else 0.0,
            n=len(v),
        )
        for key, v in groups.items()
    }
    return Table(
        datasets=_ordered([dataset for dataset, _, _ in groups]),
        methods=_ordered([method for _, method, _ in groups]),
        noise=sorted({noise for _, _, noise in groups}, key=_noise_order),
        entries=entries,
    )


def _ordered(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _noise_order(noise: str) -> tuple[int, str, float]:
    kind, _, rate = noise.rpartition(":")
    order = {"": 0, "uniform": 1, "pair": 2}
    return (order.get(kind, 3), kind, float(rate) if kind else 0.0)


def render(table: Table, form: Format = "text") -> str:
    """The table as text, Markdown, LaTeX or CSV; the best of a column stands out."""
    rows = [
        [dataset, method, *_cells(table, dataset, method, form)]
        for dataset, method in _lines(table)
    ]
    header = ["dataset", "method", *table.noise]
    ranks = table.ranks()
    if form == "csv":
        return _csv(table)
    if form == "latex":
        return _latex(header, rows, ranks)
    if form == "markdown":
        return _markdown(header, rows, ranks)
    return _text(header, rows, ranks)


def _lines(table: Table) -> list[tuple[str, str]]:
    found = {(dataset, method) for dataset, method, _ in table.entries}
    return [(d, m) for d in table.datasets for m in table.methods if (d, m) in found]


def _cells(table: Table, dataset: str, method: str, form: Format) -> list[str]:
    marks = {"text": ("*", ""), "markdown": ("**", "**"), "latex": (r"\textbf{", "}")}
    plus = r" $\pm$ " if form == "latex" else " ± "
    out = []
    for noise in table.noise:
        entry = table.entries.get((dataset, method, noise))
        if entry is None:
            out.append("")
            continue
        text = f"{entry.mean:.1f}" + (f"{plus}{entry.std:.1f}" if entry.n > 1 else "")
        best = table.best(dataset, noise)
        left, right = marks.get(form, ("", ""))
        # As in the paper's table, equal to the best at the printed precision counts as best.
        bold = best is not None and f"{entry.mean:.1f}" == f"{best:.1f}"
        out.append(f"{left}{text}{right}" if bold else text)
    return out


def _rank_line(ranks: dict[str, float]) -> str:
    parts = [f"{name} {rank:.2f}" for name, rank in sorted(ranks.items(), key=lambda item: item[1])]
    return "Average rank (1 is best): " + ", ".join(parts) if parts else ""


def _text(header: list[str], rows: list[list[str]], ranks: dict[str, float]) -> str:
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in [header, *rows]
    ]
    return "\n".join([*lines, "", "* best of its column", _rank_line(ranks)]).rstrip()


def _markdown(header: list[str], rows: list[list[str]], ranks: dict[str, float]) -> str:
    lines = ["| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows]]
    return "\n".join([*lines, "", _rank_line(ranks)]).rstrip()


def _latex(header: list[str], rows: list[list[str]], ranks: dict[str, float]) -> str:
    escape = [[cell.replace("_", r"\_") for cell in line[:2]] + line[2:] for line in rows]
    body = [" & ".join(line) + r" \\" for line in [header[:2] + header[2:], *escape]]
    body.insert(1, r"\midrule")
    columns = "ll" + "c" * (len(header) - 2)
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *body, r"\bottomrule", r"\end{tabular}"]
        + ([f"% {_rank_line(ranks)}"] if ranks else [])
    )


def _csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["dataset", "method", "noise", "mean", "std", "seeds"])
    for (dataset, method, noise), entry in table.entries.items():
        numbers: list[Any] = [f"{entry.mean:.4f}", f"{entry.std:.4f}", entry.n]
        writer.writerow([dataset, method, noise, *numbers])
    return out.getvalue().rstrip()
