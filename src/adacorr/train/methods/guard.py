"""Do no harm: labels are left alone while they look better than the net."""

from __future__ import annotations

from torch import Tensor

from adacorr.train.methods.base import EpochEnd

NEVER_READY = "burn-in did not end, no training label is corrected: the net still learns"


class Guard:
    """Withholds corrections until the net's own errors are rarer than wrong labels.

    A net is seldom wrong where it is most sure, so the half of the samples that it is surest of
    disagree with their labels about as often as labels are wrong. What it disagrees with more
    often over all samples are its own errors. Correction puts the net's errors in the place of the
    labels' ones: worth it where the first are fewer. On clean labels the surest half hardly
    disagrees, and nothing is corrected. Once open it stays open: from then on labels follow the
    net, and a net that has memorised agrees with all of them.
    """

    def __init__(self, *, active: bool) -> None:
        self.closed = active

    def withholds(self, given: Tensor, end: EpochEnd, *, first: bool) -> bool:
        """Whether to leave the labels as they are after this epoch; says so when that changes."""
        if not self.closed:
            return False
        all_samples, surest = disagreement(given, end.running)
        self.closed = all_samples >= 2 * surest
        shares = f"it disagrees with {all_samples:.1%} of them, with {surest:.1%} where it is sure"
        if self.closed and first:
            end.log(f"no correction for now: the labels look better than the net ({shares})")
        elif not self.closed and not first:
            end.log(f"correction begins: the net looks better than the labels ({shares})")
        return self.closed


def disagreement(labels: Tensor, pred_probs: Tensor) -> tuple[float, float]:
    """Share of labels that are not the argmax: of all, and of the half with the surest argmax."""
    sure, best = pred_probs.max(dim=1)
    wrong = (best != labels).double()
    half = sure.argsort(descending=True, stable=True)[: max(1, len(sure) // 2)]
    return wrong.mean().item(), wrong[half].mean().item()
