"""What ``adacorr correct`` says in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adacorr.correction import TableResult, TableSettings

ANNOTATORS = 8  # named in the summary


def facts(result: TableResult, written: list[str]) -> dict[str, Any]:
    """What ``--json`` prints."""
    stats = result.stats
    return {
        "rows": stats.rows,
        "flipped": stats.flipped,
        "review": stats.review,
        "classes": list(result.class_names),
        "classes_from_data": result.classes_from_data,
        "noise_rate": result.noise_rate,
        "noise_rate_from": result.noise_rate_from,
        "expected_wrong_flips": stats.expected_wrong_flips,
        "expected_wrong_flips_interval": result.wrong_changes,
        "expected_missed_errors": stats.expected_missed_errors,
        "noise_rate_interval": result.interval,
        "suspects": [
            {"row": row, "given": given, "other": other, "suspicion": round(doubt, 4)}
            for row, given, other, doubt in result.suspects()
        ],
        "top_changes": [{"given": a, "corrected": b, "rows": n} for a, b, n in result.top_pairs()],
        "annotators": [person.to_dict() for person in result.annotators],
        "rule": result.summary,
        "seconds": round(result.seconds, 3),
        "certificate": None if result.certificate is None else result.certificate.to_dict(),
        "written": written,
    }


def text(result: TableResult, settings: TableSettings, written: list[str], dry_run: bool) -> str:
    """The outcome in a few lines."""
    stats = result.stats
    lines = _changes(result, "would change" if dry_run else "changed")
    if result.classes_from_data:
        lines.append(result.codec.guess)
        lines.append("  (give --classes if the probabilities are in another order)")
    if result.layout.top_k and not result.layout.known_classes:
        lines.append(f"classes: {len(result.class_names):,}, as the largest class index tells")
        lines.append("  (give --n-classes or --classes if there are more)")
    lines.append(_noise_text(result))
    if stats.expected_wrong_flips is not None and stats.expected_missed_errors is not None:
        low, high = result.wrong_changes or (0, stats.flipped)
        lines.append(
            f"expected: {stats.expected_wrong_flips:,.0f} of the changes wrong ({low:,.0f} to "
            f"{high:,.0f}), {stats.expected_missed_errors:,.0f} wrong labels left"
        )
    if settings.max_flip_error is not None:
        lines.append(f"withheld for review: {stats.review:,}")
    if result.certificate is not None:
        lines += [f"proved: {result.certificate.sentence}", f"  ({result.certificate.basis})"]
    lines += _annotator_lines(result) + _suspect_lines(result)
    if result.summary.get("note"):
        lines.append(f"note: {result.summary['note']}")
    lines += [f"warning: {sentence}" for sentence in result.summary.get("warnings", ())]
    speed = stats.rows / max(result.seconds, 1e-9)
    where = ", ".join(written) or "nothing"
    lines.append(f"wrote {where} in {result.seconds:.1f} s ({speed:,.0f} rows/s)")
    return "\n".join(lines)


def _changes(result: TableResult, verb: str) -> list[str]:
    stats, pairs = result.stats, result.top_pairs()
    share = stats.flipped / stats.rows
    lines = [f"{verb} {stats.flipped:,} of {stats.rows:,} labels ({share:.1%})"]
    if pairs:
        wide = max(len(f"{a} -> {b}") for a, b, _ in pairs)
        lines += ["most frequent changes (given -> corrected):"]
        lines += [f"  {f'{a} -> {b}':<{wide}}  {n:,}" for a, b, n in pairs]
    return lines


def _noise_text(result: TableResult) -> str:
    """The share of wrong labels: a number with its interval, an interval, or why there is none."""
    between = "" if result.interval is None else "{:.1%} to {:.1%}".format(*result.interval)
    if result.noise_rate is not None:
        rate, basis = result.noise_rate, result.noise_rate_from
        within = f", between {between}" if between else ""
        return f"estimated noise rate of the given labels: {rate:.1%}{within} (from {basis})"
    if between:
        return f"noise rate of the given labels: {between}, which the data do not tell apart"
    return f"noise rate: {result.noise_rate_from}"


def _annotator_lines(result: TableResult) -> list[str]:
    """Who is how good, the worst first."""
    people = sorted(result.annotators, key=lambda person: person.quality)
    if not people:
        return []
    lines = [
        f"  {p.name}: {p.quality:.1%} of {p.n_labels:,} labels right (+- {p.standard_error:.1%}), "
        f"worst: {p.worst(result.class_names)}"
        for p in people[:ANNOTATORS]
    ]
    more = len(people) - len(lines)
    lines += [f"  and {more} better ones (--json lists all)"] if more > 0 else []
    return ["annotators, by what all of them and the model say:", *lines]


def _suspect_lines(result: TableResult) -> list[str]:
    from adacorr.runs.words import chance

    suspects = result.suspects()
    if not suspects:
        return []
    rows = []
    for row, given, other, doubt in suspects:
        sure = chance(doubt, result.stats.rows)
        rows.append(
            f"  row {row:,}: {given}, perhaps {other}{f' ({sure} suspicion)' if sure else ''}"
        )
    return ["most suspicious labels (column adacorr_suspicion ranks all):", *rows]
