"""``correct``: arrays in, corrected labels and the reasons out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.answers import DECIDERS, Answers, encode_answers
from adacorr.core.auto import AutoRule, fit_auto
from adacorr.core.certify import Certificate, tallied
from adacorr.core.informed import Answered, InformedRule, inform, proved
from adacorr.core.lrt import Decision, Rule, ThresholdRule
from adacorr.core.meter import best_other
from adacorr.core.models import mean_probs, models_of
from adacorr.core.readings import Reading, WrongChanges
from adacorr.core.sampling import sample_rows, sample_size
from adacorr.core.sparse import LargestOnly, fit_top_k, largest
from adacorr.core.validation import (
    InputError,
    as_pred_probs,
    check_count,
    check_invertible,
    check_number,
    check_same_length,
)
from adacorr.correction.panel import (
    Annotator,
    PanelRule,
    alone,
    encode_panel,
    fit_panel_rule,
    is_panel,
)
from adacorr.labels import Codec, Encoded, column_names, encode_labels

MATRIX_CLASSES = 2000
"""Above, the automatic rule looks at each row's largest probabilities only."""


@dataclass(frozen=True)
class Correction:
    """Result of :func:`correct`; arrays of length N in the order of the input.

    Attributes
    ----------
    labels : the corrected labels, of the kind that was passed in.
    ratio : the likelihood ratio behind each decision, in [0, 1]; small means doubtful. Under
        "auto", P(given label is right) / P(suggestion is right), so that the threshold is 1.
    flipped : where the label was changed.
    suggested : what the rule would say; equals `labels` where flipped.
    suspicion : P(the given label is wrong), under "auto"; whether or not anything is changed. With
        a threshold, 1 - ratio orders the rows instead.
    alternative : the most probable class other than the given one.
    confidence : under "auto", the estimated probability that the label after correction is right;
        NaN where the data do not tell. The numbers below are then None.
    to_review : flips that `max_flip_error` withheld: not applied, for a person to look at.
    expected_wrong_flips, expected_missed_errors : under "auto", how many of the flips are
        expected to be wrong, and how many wrong labels are expected to remain unchanged.
    expected_wrong_flips_interval : (low, high) of the former, from the interval of the noise rate
        and chance; with answers, from the certificate.
    noise_rate : under "auto", the estimated share of wrong labels before correction; None where
        two readings are open.
    noise_rate_interval : (low, high), which the data do not exclude.
    readings : the explanations of the labels that fit, the one in force first.
    certificate : what the answers of `verified` prove; None without answers.
    decided_by : with answers, whose word each label is: "given", "rule" or "answers".
    T : under "auto", the estimated (or given) transition matrix, where noise depends on the class.
    annotators : where several people labelled: who is how good; empty otherwise.
    note : what the rule found, in plain words.
    warnings : what seems to be wrong with the input, a sentence each.
    given : the labels that were passed in.
    """

    labels: NDArray[Any]
    ratio: NDArray[np.float64]
    flipped: NDArray[np.bool_]
    suggested: NDArray[Any]
    suspicion: NDArray[np.float64] | None = None
    alternative: NDArray[Any] | None = None
    confidence: NDArray[np.float64] | None = None
    to_review: NDArray[np.bool_] | None = None
    expected_wrong_flips: float | None = None
    expected_wrong_flips_interval: tuple[float, float] | None = None
    expected_missed_errors: float | None = None
    noise_rate: float | None = None
    noise_rate_interval: tuple[float, float] | None = None
    readings: tuple[Reading, ...] = ()
    certificate: Certificate | None = None
    decided_by: NDArray[Any] | None = None
    T: NDArray[np.float64] | None = None
    annotators: tuple[Annotator, ...] = ()
    note: str = ""
    warnings: tuple[str, ...] = ()
    given: NDArray[Any] | None = None

    @property
    def n_flipped(self) -> int:
        return int(self.flipped.sum())

    def suspects(self, n: int = 100) -> list[Suspect]:
        """The `n` most doubtful rows, most doubtful first, changed or not."""
        if self.suspicion is None or self.alternative is None:
            raise InputError("suspects: expected the result of correct, got one without suspicion")
        doubt = np.nan_to_num(self.suspicion, nan=0.0)
        order = np.lexsort((np.arange(len(doubt)), -doubt))[: check_count(n, "n")]
        return [
            Suspect(
                int(row), self.alternative[row].item(), float(doubt[row]), bool(self.flipped[row])
            )
            for row in order
        ]

    def __repr__(self) -> str:
        said = [f"{self.n_flipped:,} of {len(self.flipped):,} labels changed"]
        if self.noise_rate is not None:
            said.append(f"noise rate {self.noise_rate:.1%}")
        elif self.noise_rate_interval is not None:
            low, high = self.noise_rate_interval
            said.append(f"noise rate between {low:.1%} and {high:.1%}")
        if self.expected_wrong_flips is not None:
            low, high = self.expected_wrong_flips_interval or (0.0, self.n_flipped)
            count = self.expected_wrong_flips
            said.append(f"about {count:,.0f} changes wrong ({low:,.0f} to {high:,.0f})")
        said += [self.note] if self.note else []
        return f"Correction({', '.join([*said, *self.warnings])})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers, the warnings and the first suspects."""
        from adacorr.correction.shown import correction_html

        return correction_html(self)

    def plot(self) -> Any:
        """A matplotlib figure: how doubtful the labels are, ranked, and what changed to what."""
        from adacorr.correction.shown import correction_figure

        return correction_figure(self)


@dataclass(frozen=True)
class Suspect:
    """A row whose label is in doubt: its number, what may be right instead, and how doubtful."""

    row: int
    suggestion: Any
    suspicion: float
    changed: bool


def fit_rule(
    codes: NDArray[np.int64],
    pred_probs: NDArray[np.floating],
    *,
    delta: ArrayLike | str = "auto",
    T: ArrayLike | None = None,
    max_flip_error: float | None = None,
    answered: Answered | None = None,
) -> Rule:
    """The rule that :func:`correct` applies, fitted to checked rows (all of them, or a sample).

    Parameters
    ----------
    codes : (N,) class indices.
    pred_probs : (N, K), out of sample.
    delta : "auto", or a threshold for Procedure 1 (then nothing is fitted).
    T, max_flip_error : as in :func:`correct`; for "auto" only.
    answered : rows that people answered; for "auto" they choose among its rules.

    >>> rule = fit_rule(np.array([0, 1]), np.array([[0.9, 0.1], [0.8, 0.2]]), delta=0.5)
    >>> rule.decide(np.array([1]), np.array([[0.7, 0.3]])).flipped
    array([ True])
    """
    k = pred_probs.shape[1]
    if not isinstance(delta, str):
        for name, value in (("T", T), ("max_flip_error", max_flip_error)):
            if value is not None:
                raise InputError(f"{name}: expected only with delta='auto', got delta={delta}")
        return ThresholdRule.create(delta, k)
    if delta != "auto":
        raise InputError(f"delta: expected 'auto' or a number in (0, 1], got {delta!r}")
    if max_flip_error is not None:
        check_number(max_flip_error, "max_flip_error", above=0, at_most=1)
    known = None if T is None else check_invertible(T, k)
    rows = sample_rows(len(codes), sample_size(k))
    if known is None and k > MATRIX_CLASSES:  # K x K numbers would not fit into memory
        some = largest(pred_probs[rows])
        return LargestOnly(fit_top_k(codes[rows], some, max_flip_error=max_flip_error))
    rule = fit_auto(codes[rows], pred_probs[rows], known, max_flip_error)
    if answered is None or not (answered.truth >= 0).any():
        return rule
    return inform(rule, codes[rows], pred_probs[rows], answered)


def correct(
    labels: ArrayLike,
    pred_probs: ArrayLike | Sequence[ArrayLike],
    delta: ArrayLike | str = "auto",
    T: ArrayLike | None = None,
    *,
    classes: Sequence[Any] | None = None,
    normalize: bool = False,
    max_flip_error: float | None = None,
    verified: Any = None,
    rng: int = 0,
) -> Correction:
    """Correct labels with the predictions of a classifier that did not see them.

    Parameters
    ----------
    labels : (N,) integers or strings, possibly wrong; or (N, M), one column for each annotator,
        with gaps (None, NaN, masked, "" or -1). The result is then their consensus, ``flipped`` is
        where it differs from the majority vote, and ``annotators`` says who is how good.
    pred_probs : (N, K) out-of-sample probabilities, for example from ``cross_val_predict``; a list
        of such arrays (several models, repeated cross-validation) counts by its mean.
    delta : "auto" fits a noise model and flips where another label is more probable than the
        given one; a number in (0, 1] is LRT-Correction (Procedure 1 of Zheng et al. 2020): flip
        to the argmax when f[label] / f[argmax] < delta.
    T : (K, K), ``T[i, j] = P(given = j | true = i)`` if you know it; "auto" then does not guess.
    classes : names of the columns, when the labels do not tell. By default the columns of a frame
        that name the classes (a prefix such as ``p_`` may precede them), else the order that a
        categorical or an Enum states, else the labels in sorted order; see ``adacorr.labels``.
    normalize : accept rows that do not sum to one.
    max_flip_error : with "auto", apply only flips whose estimated probability of being wrong is
        below this; the others are listed in ``to_review``.
    verified : what people said of single rows: ``{row: label}`` or an array with gaps. With "auto"
        and one annotator the answers choose the rule; their rows get the verified label; and
        ``certificate`` states what they prove. :func:`adacorr.ask` says which rows to show to a
        person.
    rng : the seed that :func:`adacorr.ask` was called with.

    >>> result = correct(["cat", "dog"], [[0.9, 0.1], [0.8, 0.2]], delta=0.9)
    >>> result.labels.tolist(), result.ratio.round(2).tolist()
    (['cat', 'cat'], [1.0, 0.25])
    """
    if isinstance(delta, str) or normalize or models_of(pred_probs) is not None:
        f, columns = mean_probs(pred_probs, normalize=normalize)
    else:  # the threshold rule checks the rows as it goes
        one: Any = pred_probs
        f, columns = as_pred_probs(one), column_names(one)
    if is_panel(labels):
        if delta != "auto" or T is not None:
            raise InputError("labels: expected delta='auto' and no T with several annotators")
        codes, codec = encode_panel(labels, f.shape[1], classes, columns)
        check_same_length(codes, f)
        names = column_names(labels) or list(range(codes.shape[1]))
        answers = encode_answers(verified, len(f), codec)
        options = {"max_flip_error": max_flip_error, "answers": answers, "seed": rng}
        return correct_panel(codes, codec, f, names, **options)
    given = encode_labels(labels, f.shape[1], classes, columns=columns)
    check_same_length(given.codes, f)
    answers = encode_answers(verified, len(f), given.codec)
    return correct_codes(
        given, f, delta=delta, T=T, max_flip_error=max_flip_error, answers=answers, seed=rng
    )


def correct_codes(
    given: Encoded,
    f: NDArray[np.floating],
    *,
    delta: ArrayLike | str = "auto",
    T: ArrayLike | None = None,
    max_flip_error: float | None = None,
    answers: Answers,
    seed: int = 0,
    judged: NDArray[np.bool_] | None = None,
) -> Correction:
    """What :func:`correct` does once labels, probabilities and answers are checked.

    Parameters
    ----------
    answers : of people; none change nothing.
    seed : of the order in which rows are asked.
    judged : (N,) the other rows (unreadable, say) have no say, and keep their labels unless a
        person names one. None: all rows are judged.
    """
    codes, some = given.codes, slice(None) if judged is None else judged
    heard = answers if judged is None else answers.where(judged)
    answered = Answered.of(codes, f, heard) if heard else None
    rule = fit_rule(
        codes[some], f[some], delta=delta, T=T, max_flip_error=max_flip_error, answered=answered
    )
    decision = rule.decide(codes, f)
    if judged is not None:
        decision = _only(decision, codes, judged)
    return _with_proof(given, f, rule, decision, answers, seed)


def _with_proof(
    given: Encoded,
    f: NDArray[np.floating],
    rule: Rule,
    decision: Decision,
    answers: Answers,
    seed: int,
    people: tuple[Annotator, ...] = (),
) -> Correction:
    """What a rule says, with answers in their rows and what they prove of it."""
    if not answers:
        return _result(given, f, rule, decision, people)
    tally = tallied(given.codes, f, decision, answers, seed)
    certificate = proved(rule, tally)
    result = _result(given, f, rule, with_answers(decision, given.codes, answers), people)
    return replace(
        result,
        certificate=certificate,
        decided_by=np.array(DECIDERS)[answers.deciders(result.flipped)],
        noise_rate_interval=certificate.wrong_before,
        expected_wrong_flips_interval=certificate.wrong_changes_between,
    )


def _only(decision: Decision, codes: NDArray[np.int64], judged: NDArray[np.bool_]) -> Decision:
    """A decision about some of the rows; nothing is said of the others."""
    otherwise = {
        "suggested": codes, "ratio": 1.0, "flipped": False,
        "confidence": np.nan, "review": False, "suspicion": np.nan,
    }  # fmt: skip
    values = {name: getattr(decision, name) for name in otherwise}
    return replace(
        decision,
        **{
            name: np.where(judged, column, otherwise[name])
            for name, column in values.items()
            if column is not None
        },
    )


def correct_panel(
    codes: NDArray[np.int64],
    codec: Codec,
    f: NDArray[np.floating],
    names: Sequence[Any],
    *,
    max_flip_error: float | None = None,
    answers: Answers,
    seed: int = 0,
) -> Correction:
    """As :func:`correct_codes`, for (N, M) codes of several annotators with these names."""
    if codes.shape[1] == 1:
        given = Encoded(codes[:, 0], codec)
        rule = fit_rule(given.codes, f, max_flip_error=max_flip_error)
        decision = rule.decide(given.codes, f)
        people = alone(names[0], given.codes, decision, f.shape[1])
        return _with_proof(given, f, rule, decision, answers, seed, people)
    rule = fit_panel_rule(codes, f, names, max_flip_error)
    judged = rule.judge(codes, f)
    given, people = Encoded(judged.majority, codec), rule.people(judged.quality)
    return _with_proof(given, f, rule, judged.decision, answers, seed, people)


def with_answers(
    decision: Decision, codes: NDArray[np.int64], answers: Answers, first_row: int = 0
) -> Decision:
    """A decision in which the rows that people settled have their labels; first_row: of `codes`."""
    known = answers.definite.between(first_row, first_row + len(codes))
    if not known:
        return decision
    at = known.rows - first_row
    columns = {
        "suggested": (decision.suggested, known.codes),
        "ratio": (decision.ratio, np.where(known.codes == codes[at], 1.0, 0.0)),
        "flipped": (decision.flipped, known.codes != codes[at]),
        "confidence": (decision.confidence, 1.0),
        "review": (decision.review, False),
        "suspicion": (decision.suspicion, (known.codes != codes[at]).astype(float)),
    }
    changed = {}
    for name, (values, new) in columns.items():
        if values is not None:
            changed[name] = values.copy()
            changed[name][at] = new
    return replace(decision, **changed)


def _result(
    given: Encoded,
    f: NDArray[np.floating],
    rule: Rule,
    decision: Decision,
    people: tuple[Annotator, ...],
) -> Correction:
    """A decision in the words of the user's labels, with what the fit says of the whole."""
    other = best_other(given.codes, f)[0] if decision.other is None else decision.other
    summary = rule.summary
    guess = (given.codec.guess,) if given.codec.surprising else ()
    result = Correction(
        labels=given.decode(np.where(decision.flipped, decision.suggested, given.codes)),
        ratio=decision.ratio,
        flipped=decision.flipped,
        suggested=given.decode(decision.suggested),
        suspicion=1 - decision.ratio if decision.suspicion is None else decision.suspicion,
        alternative=given.decode(other),
        confidence=decision.confidence,
        to_review=decision.review,
        note=summary["note"],
        warnings=(*summary.get("warnings", ()), *guess),
        annotators=people,
        given=given.decode(given.codes),
    )
    interval = summary.get("interval")
    if interval is not None:
        result = replace(result, noise_rate_interval=(interval[0], interval[1]))
    if isinstance(rule, AutoRule | InformedRule):
        base = rule if isinstance(rule, AutoRule) else rule.base
        result = replace(result, T=base.T, readings=base.readings)
    if isinstance(rule, PanelRule):
        result = replace(result, readings=rule.readings)
    if decision.confidence is None or summary["noise_rate"] is None:
        return result
    doubt, changes = 1 - decision.confidence, decision.flipped
    wrong = None
    if interval is not None:
        rate, ends = summary["noise_rate"], (interval[0], interval[1])
        counted = WrongChanges.of(decision.confidence[changes], rate, ends)
        wrong = counted.interval(int(changes.sum()))
    return replace(
        result,
        expected_wrong_flips=float(np.nansum(doubt[changes])),
        expected_wrong_flips_interval=wrong,
        expected_missed_errors=float(np.nansum(doubt[~changes])),
        noise_rate=summary["noise_rate"],
    )
