"""What answers prove of a correction: limits for wrong changes and for wrong labels.

The premise is that a person's answer is the truth. Nothing is assumed of the model, the noise or
the rule. Rows were asked in a random order (:mod:`adacorr.core.asking`), and only the rows that
are answered without a gap from the start of a stratum's order count: answers that somebody gave
elsewhere (to the most suspicious rows, say) inform a rule and correct their rows, but a sample
picked by suspicion proves nothing about the rest. "Cannot tell" counts as a wrong label.

The limits hold whenever one stops asking, as often as one asks (:mod:`adacorr.core.sequences`).
They also hold for a rule that was chosen by looking at the same answers, if it was chosen among
`family_size` rules that were settled before the first answer: each of them gets its share of the
error level, so it does not matter which one was taken. Rules that leave the agreed rows as they are
share one limit there, and mostly all do.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.core.answers import Answers
from adacorr.core.asking import AGREED, DISPUTED, FIRST, LAST_KEY, is_disputed, order_key
from adacorr.core.lrt import Decision
from adacorr.core.sequences import Part, least_marked, most_marked
from adacorr.core.validation import check_count, check_number

CONFIDENCE = 0.95  # at most one certificate in twenty is wrong


@dataclass(frozen=True)
class Tally:
    """All that a certificate needs of some rows; tallies of parts of the rows merge.

    Attributes
    ----------
    sizes, changed : rows, and rows that the rule changes, in each stratum.
    first_open : in each stratum, the key of the first row in the order that has no answer.
    stratum, key, answer, given, proposed : of the answered rows; -1 is "cannot tell".
    """

    sizes: NDArray[np.int64]
    changed: NDArray[np.int64]
    first_open: NDArray[np.uint64]
    stratum: NDArray[np.int64]
    key: NDArray[np.uint64]
    answer: NDArray[np.int64]
    given: NDArray[np.int64]
    proposed: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        given: NDArray[np.int64],
        proposed: NDArray[np.int64],
        disputed: NDArray[np.bool_],
        answers: Answers,
        *,
        seed: int = 0,
        first_row: int = 0,
    ) -> Tally:
        """Of consecutive rows, the first of which has the number `first_row`.

        `proposed` is what the rule says before verified labels are put in their place.
        """
        here = answers.between(first_row, first_row + len(given))
        at = here.rows - first_row
        key = order_key(np.arange(first_row, first_row + len(given)), seed)
        open_ = np.ones(len(given), dtype=bool)
        open_[at] = False
        stratum = np.where(disputed, DISPUTED, AGREED)
        first = [key[open_ & (stratum == s)].min(initial=LAST_KEY) for s in (DISPUTED, AGREED)]
        return cls(
            np.bincount(stratum, minlength=2),
            np.bincount(stratum[proposed != given], minlength=2),
            np.array(first, dtype=np.uint64),
            stratum[at],
            key[at],
            here.codes,
            given[at],
            proposed[at],
        )

    def merge(self, other: Tally) -> Tally:
        """Of both parts together."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in _PER_ANSWER}
        return Tally(
            self.sizes + other.sizes,
            self.changed + other.changed,
            np.minimum(self.first_open, other.first_open),
            **{name: np.concatenate(pair) for name, pair in pairs.items()},
        )

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Answered rows that come before the first gap of their stratum."""
        return self.key < self.first_open[self.stratum]

    def parts(
        self, marked: NDArray[np.bool_], among: NDArray[np.bool_] | None = None
    ) -> tuple[Part, ...]:
        """Each stratum as a sampled set; `among` restricts it to the rows that are changed."""
        counted = self.counted if among is None else self.counted & among
        sizes = self.sizes if among is None else self.changed
        return tuple(
            Part(int(sizes[s]), int((rows := counted & (self.stratum == s)).sum()),
                 int((rows & marked).sum()))
            for s in (DISPUTED, AGREED)
        )  # fmt: skip


_PER_ANSWER = ("stratum", "key", "answer", "given", "proposed")


def tallied(
    given: NDArray[np.int64],
    pred_probs: Any,
    decision: Decision,
    answers: Answers,
    seed: int = 0,
    first_row: int = 0,
) -> Tally:
    """Of a rule's decision, before verified labels are in place."""
    proposed = np.where(decision.flipped, decision.suggested, given)
    disputed = is_disputed(given, pred_probs)
    return Tally.of(given, proposed, disputed, answers, seed=seed, first_row=first_row)


@dataclass(frozen=True)
class Found:
    """Rows of which an unknown number is wrong, in two strata.

    Attributes
    ----------
    parts : what the random order has shown of each stratum.
    wrong, right : rows known to be wrong (and put right) and known to be right, from all answers.
    """

    parts: tuple[Part, ...]
    wrong: float
    right: float

    @property
    def left(self) -> float:
        """Rows that no person has settled."""
        return sum(part.size for part in self.parts) - self.wrong - self.right

    def limit(self, alpha: float, rules: tuple[int, int]) -> float:
        """At most so many of the rows that are left are wrong, for any of the rules.

        `rules` : how many rules differ among the disputed, and among the agreed rows.
        """
        return float(np.clip(most_marked(self.parts, alpha, rules) - self.wrong, 0, self.left))

    def grown(self, parts: tuple[Part, ...]) -> Found:
        """After more answers like those before."""
        wrong = sum(new.marked - old.marked for new, old in zip(parts, self.parts, strict=True))
        seen = sum(new.seen - old.seen for new, old in zip(parts, self.parts, strict=True))
        return Found(parts, self.wrong + wrong, self.right + seen - wrong)


@dataclass(frozen=True)
class Certificate:
    """What answers prove of a correction; each statement holds with `confidence` on its own.

    Attributes
    ----------
    rows : labels in the data set.
    changes : labels that the rule changes on rows that no person has settled.
    verified, fixed : rows with a verified label, and those among them whose label was wrong.
    wrong_changes : at most this share of the changes is wrong; None without changes.
    wrong_after : at most this share of all labels is wrong after the correction.
    wrong_before : (at least, at most) this share of the given labels is wrong.
    answers, counted, cannot_tell : answers in all, those that count for the limits, and those of
        all that name no class.
    confidence : of each statement.
    family_size : number of rules, settled beforehand, among which the answers chose.
    agreed_size : number of them that differ on agreed rows.
    all_rows, changed_rows : the counts behind the limits.
    """

    rows: int
    changes: int
    verified: int
    fixed: int
    wrong_changes: float | None
    wrong_after: float
    wrong_before: tuple[float, float]
    answers: int
    counted: int
    cannot_tell: int
    confidence: float
    family_size: int
    agreed_size: int
    all_rows: Found
    changed_rows: Found

    @property
    def wrong_changes_between(self) -> tuple[float, float] | None:
        """None to `wrong_changes` of the changes by rule, as numbers of labels."""
        if self.wrong_changes is None:
            return None if self.changes else (0.0, 0.0)
        return (0.0, self.wrong_changes * self.changes)

    @property
    def sentence(self) -> str:
        """What is done and what is proved, in one sentence."""
        low, high = (f"{share:.1%}" for share in self.wrong_before)
        after = f"at most {self.wrong_after:.1%} of all labels are wrong after, {low} to {high} now"
        people = f", {self.fixed:,} by answers" if self.fixed else ""
        changes = "no label" if self.wrong_changes is None else f"{self.changes:,} labels"
        done = f"change {changes} by rule{people}"
        if not self.counted:
            return f"{done}; nothing is proved: no answer is to a question of `adacorr ask`"
        if self.wrong_changes is None:
            return f"{done}; {after}"
        return f"{done}; at most {self.wrong_changes:.1%} of the changes by rule are wrong; {after}"

    @property
    def basis(self) -> str:
        """On what the sentence rests."""
        outside, unsure = self.answers - self.counted, self.cannot_tell
        parts = [
            f"from {self.counted:,} answers in random order",
            f" ({outside:,} more, out of this order, do not count)" if outside else "",
            f"; 'cannot tell' ({unsure:,}) counts as wrong" if unsure else "",
            f"; each limit holds with {self.confidence:.0%} confidence whenever one stops asking",
            f", for a rule chosen among {self.family_size}" if self.family_size > 1 else "",
        ]
        return "".join(parts)

    def outlook(self, more: int) -> tuple[float | None, float]:
        """`wrong_changes` and `wrong_after` to expect after `more` answers like those before."""
        everything = self.all_rows.parts
        seen = _seen([p.size for p in everything], int(sum(p.seen for p in everything)) + more)
        rates = [
            max(0.0, (n - p.seen) / max(p.size - p.seen, 1))
            for n, p in zip(seen, everything, strict=True)
        ]
        grown = [
            found.grown(_grown(found.parts, rates)) for found in (self.all_rows, self.changed_rows)
        ]
        alpha, rules = 1 - self.confidence, (self.family_size, self.agreed_size)
        after = grown[0].limit(alpha, rules) / self.rows
        changes = grown[1].left
        return (grown[1].limit(alpha, rules) / changes if changes >= 1 else None), after

    def more_answers(self, target: float) -> int:
        """How many further answers show `wrong_after` <= `target`, if they go on as before."""
        check_number(target, "target", above=0, below=1)

        def enough(more: int) -> bool:
            return self.outlook(more)[1] <= target

        if self.wrong_after <= target:
            return 0
        low, high = 0, 8
        while not enough(high) and high < self.rows:
            low, high = high, 2 * high
        while high - low > max(1, low // 100):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return min(high, self.rows - self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; the counts behind the limits included."""
        return asdict(self) | {"sentence": self.sentence, "basis": self.basis}


def certify(
    tally: Tally,
    *,
    confidence: float = CONFIDENCE,
    family_size: int = 1,
    agreed_size: int | None = None,
) -> Certificate:
    """The limits that answers give.

    Parameters
    ----------
    tally : of all rows.
    confidence : of each statement on its own.
    family_size : among how many rules the one that is applied was chosen with these answers; all
        of them must have been settled before the first answer.
    agreed_size : in how many ways these treat the agreed rows; by default each in its own.

    >>> given, disputed = np.zeros(1000, np.int64), np.arange(1000) < 100
    >>> rows = np.concatenate([np.flatnonzero(s)[np.argsort(order_key(np.flatnonzero(s)))][:40]
    ...                        for s in (disputed, ~disputed)])
    >>> answers = Answers.of(rows, disputed[rows])  # the disputed ones were all wrong
    >>> proposed = disputed.astype(np.int64)
    >>> certify(Tally.of(given, proposed, disputed, answers)).sentence
    'change 60 labels by rule, 40 by answers; at most ... of the changes by rule are wrong; ...'
    """
    level = check_number(confidence, "confidence", above=0, below=1)
    alpha, size = 1 - level, check_count(family_size, "family_size", at_least=1)
    rules = size, size if agreed_size is None else min(agreed_size, size)
    rows, known = int(tally.sizes.sum()), tally.answer >= 0
    is_change = tally.proposed != tally.given
    wrong, was_wrong = tally.proposed != tally.answer, tally.given != tally.answer
    everything = Found(tally.parts(wrong), int((wrong & known).sum()), int((~wrong & known).sum()))
    changed = Found(
        tally.parts(wrong, is_change),
        int((wrong & known & is_change).sum()),
        int((~wrong & known & is_change).sum()),
    )
    left = int(changed.left)
    return Certificate(
        rows=rows,
        changes=left,
        verified=int(known.sum()),
        fixed=int((was_wrong & known).sum()),
        wrong_changes=changed.limit(alpha, rules) / left if left else None,
        wrong_after=everything.limit(alpha, rules) / rows,
        wrong_before=_before(tally, rows, (1 - level) / 2),
        answers=len(tally.answer),
        counted=int(tally.counted.sum()),
        cannot_tell=int((~known).sum()),
        confidence=level,
        family_size=rules[0],
        agreed_size=rules[1],
        all_rows=everything,
        changed_rows=changed,
    )


def _before(tally: Tally, rows: int, alpha: float) -> tuple[float, float]:
    """Limits for the share of wrong labels among the given ones."""
    known, was_wrong = tally.answer >= 0, tally.given != tally.answer
    surely = was_wrong & known  # "cannot tell" proves nothing wrong
    low = max(least_marked(tally.parts(surely), alpha), int(surely.sum()))
    high = min(most_marked(tally.parts(was_wrong), alpha), rows - int((~was_wrong).sum()))
    return low / rows, high / rows


def _seen(sizes: list[int], count: int) -> tuple[int, int]:
    """Rows of each stratum among the first `count` questions; see :func:`asking.turns`."""
    disputed = count - count // 3 if count <= FIRST else FIRST - FIRST // 3 + (count - FIRST) // 3
    disputed = min(max(disputed, count - sizes[1]), sizes[0])
    return disputed, min(count - disputed, sizes[1])


def _grown(parts: tuple[Part, ...], rates: list[float]) -> tuple[Part, ...]:
    """Parts of whose unseen rows a share was asked, with as many marked ones as before."""
    return tuple(
        Part(p.size, seen := p.seen + rate * (p.size - p.seen), seen * p.marked / max(p.seen, 1))
        for p, rate in zip(parts, rates, strict=True)
    )
