"""What ``adacorr fit`` says in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from adacorr.cli.fit_plan import FitPlan
    from adacorr.data import Dataset
    from adacorr.train import FitResult


def summarise(
    plan: FitPlan,
    data: Dataset,
    truth: NDArray[np.int64] | None,
    test: Dataset | None,
    result: FitResult,
    seconds: float,
) -> dict[str, Any]:
    """The outcome as plain values; accuracies where the truth is known."""
    from adacorr.cli.answers import proved

    selected, found = result.history[result.selected_epoch - 1], result.correction
    summary: dict[str, Any] = {
        "run": str(plan.run_dir),
        "method": plan.method.name,
        "samples": len(data),
        "epochs": len(result.history),
        "selected_epoch": result.selected_epoch,
        "val_accuracy": selected["val_accuracy"],
        "labels_changed": int((result.labels != data.labels).sum()),
        "expected_wrong_changes": None if found is None else found.expected_wrong_flips,
        "expected_wrong_changes_interval": found and found.expected_wrong_flips_interval,
        "noise_rate": None if found is None else found.noise_rate,
        "noise_rate_interval": None if found is None else found.noise_rate_interval,
        "note": note_of(result),
        "warnings": [] if found is None else list(found.warnings),
        "certificate": None if found is None else proved(found.certificate),
        "skipped": len(data.skipped),
        "seconds": round(seconds, 1),
    }
    if truth is not None:
        summary["label_accuracy_before"] = float((data.labels == truth).mean())
        summary["label_accuracy_after"] = float((result.labels == truth).mean())
    if test is not None:
        predicted = result.predict_proba(test.features, plan.settings.workers).argmax(axis=1)
        right = test.labels if test.truth is None else test.truth
        summary["test_accuracy"] = float((predicted == right).mean())
    return summary


def note_of(result: FitResult) -> str | None:
    """What the rule has to say, above all why nothing was changed."""
    if result.withheld:
        return f"no label is changed: {result.withheld}"
    return None if result.correction is None else result.correction.note or None


def summary_text(s: dict[str, Any]) -> str:
    """The summary in a few lines."""
    from adacorr.cli.answers import proof_lines
    from adacorr.cli.progress import duration

    share = s["labels_changed"] / s["samples"]
    lines = [
        f"{s['method']}: {s['epochs']} epochs on {s['samples']:,} samples "
        f"in {duration(s['seconds'])}",
        f"labels changed     {s['labels_changed']:,} ({share:.1%})",
    ]
    if s["note"]:
        lines.append(f"                   {s['note']}")
    if s["expected_wrong_changes"] is not None and s["labels_changed"]:
        low, high = s["expected_wrong_changes_interval"] or (0, s["labels_changed"])
        wrong = f"{s['expected_wrong_changes']:,.0f} ({low:,.0f} to {high:,.0f}) of the changes"
        lines.append(f"expected wrong     {wrong}")
    if interval := s["noise_rate_interval"]:
        lines.append("wrong labels       between {:.1%} and {:.1%}".format(*interval))
    lines += proof_lines(s["certificate"])
    lines += [f"warning            {sentence}" for sentence in s["warnings"]]
    if "label_accuracy_after" in s:
        before, after = s["label_accuracy_before"], s["label_accuracy_after"]
        lines.append(f"labels right       {before:.1%} before, {after:.1%} after")
    lines.append(
        f"selected epoch     {s['selected_epoch']} "
        f"(validation accuracy {s['val_accuracy']:.1%} on its own labels)"
    )
    if "test_accuracy" in s:
        lines.append(f"test accuracy      {s['test_accuracy']:.1%}")
    if s["skipped"]:
        lines.append(f"skipped            {s['skipped']} unreadable files")
    lines.append(f"results            {s['run']}/ (labels.parquet, report.html)")
    return "\n".join(lines)
