"""Do no harm: labels are left alone while they look better than the net."""

from __future__ import annotations

from torch import Tensor

from adacorr.train.methods.base import EpochEnd
from adacorr.train.methods.parts.noise_rate import disagreement, sure_as_right, surest_part

ENOUGH = 100  # validation samples
NEVER_READY = "burn-in did not end, no training label is corrected: the net still learns"


class LabelGuard:
    """Withholds corrections until the net's own errors are rarer than wrong labels.

    A net is seldom wrong where it is most sure, so the samples that it is surest of disagree with
    their labels about as often as labels are wrong. What it disagrees with more often over all
    samples are its own errors. Correction puts the net's errors in the place of the labels' ones:
    worth it where the first are fewer. On clean labels the surest hardly disagree, and nothing is
    corrected. Of a net that still learns neither can be measured, and it corrects nothing.

    Both are measured on the noisy validation split, whose labels the net has not learnt by heart;
    where that has fewer than `ENOUGH` samples, on the training data. Once open it stays open: from
    then on labels follow the net, and a net that has memorised agrees with all of them.
    """

    def __init__(self, *, active: bool) -> None:
        self.closed = active

    def withholds(self, given: Tensor, end: EpochEnd, *, first: bool) -> bool:
        """Whether to leave the labels as they are after this epoch; says so when that changes."""
        if not self.closed:
            return False
        if end.validation is not None and len(end.validation[0]) >= ENOUGH:
            labels, pred_probs = end.validation
            (n, k), part = pred_probs.shape, surest_part(labels, pred_probs)
            everywhere, where_sure = disagreement(labels, pred_probs, part)
            learns = not sure_as_right(labels, pred_probs)
            self.closed = learns or errs_more(everywhere, where_sure, n // part, k)
        else:
            learns = False
            everywhere, where_sure = disagreement(given, end.running, part=2)
            self.closed = everywhere >= 2 * where_sure
        shares = (
            f"it disagrees with {everywhere:.1%} of them, with {where_sure:.1%} where it is sure"
        )
        if self.closed and first:
            why = "the net still learns" if learns else "the labels look better than the net"
            end.log(f"no correction for now: {why} ({shares})")
        elif not self.closed and not first:
            end.log(f"correction begins: the net looks better than the labels ({shares})")
        return self.closed


def errs_more(everywhere: float, where_sure: float, n: int, k: int) -> bool:
    """Whether a net has more errors than its labels, from how often the two disagree.

    Of labels with noise h, spread over the other classes, a net with errors e disagrees with
    ``h + e (1 - h k / (k - 1))``. For h stands the disagreement of the `n` surest samples, and a
    standard error more: only a clear case is one.

    >>> errs_more(0.31, 0.20, n=200, k=10), errs_more(0.45, 0.12, n=200, k=10)
    (False, True)
    """
    h = (where_sure * n + 1) / (n + 2)
    h += (h * (1 - h) / n) ** 0.5
    return everywhere - h >= h * (1 - h * k / (k - 1))
