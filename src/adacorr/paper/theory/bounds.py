"""The lemmas, theorems and the corollary of Zheng et al. (2020), each with its conditions.

Every function returns a :class:`Bound`: an upper limit on the probability of an event that is
spelled out in words, and the conditions under which the limit is proven. Where the printed
statement needed mending the docstring says how and proves it; the forms are those of the paper's
supplement (upper limits on joint probabilities of being wrong), because the main text's "at least
1 - ..." for a joint probability such as P[label is right and was flipped] cannot hold when flips
are rare.

Notation: eta is the clean posterior, ``eta~ = eta @ T`` the noisy one, f the noisy classifier,
eps = sup |f - eta~|, u = argmax eta the Bayes label ("right"), s the runner-up of eta,
m = argmax f, y~ the given label. A constant pair (C, lambda) with t0 stands for the Tsybakov
condition (:mod:`adacorr.paper.theory.tsybakov`): the binary margin in the binary statements, the
multiclass margin in the others. Least squares constants are a fit, not an upper envelope: a bound
computed with them is an illustration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adacorr.core.validation import (
    InputError,
    check_count,
    check_delta,
    check_number,
    check_pred_probs,
    check_same_length,
    check_transition,
)
from adacorr.labels import encode_labels


@dataclass(frozen=True)
class Condition:
    """One assumption of a bound: its name, whether it is met, and the numbers behind that."""

    name: str
    met: bool
    why: str


@dataclass(frozen=True)
class Bound:
    """An upper limit on a probability.

    Attributes
    ----------
    event : what the probability is of.
    value : the limit; nothing is claimed if a condition fails.
    conditions : the assumptions that can be checked from the arguments. That the Tsybakov
        constants, T and eps are the right ones can not, and is always assumed.
    as_printed : the paper's own expression, where it differs from the proven `value`.
    """

    event: str
    value: float
    conditions: tuple[Condition, ...]
    as_printed: float | None = None

    @property
    def valid(self) -> bool:
        """All conditions are met."""
        return all(condition.met for condition in self.conditions)

    @property
    def vacuous(self) -> bool:
        """The bound says nothing: a condition fails, or the limit is 1 or more."""
        return not self.valid or self.value >= 1

    @property
    def failed(self) -> tuple[Condition, ...]:
        return tuple(condition for condition in self.conditions if not condition.met)

    def __str__(self) -> str:
        text = f"{self.event} <= {self.value:.4g}"
        if not self.valid:
            reasons = "; ".join(f"{c.name} fails ({c.why})" for c in self.failed)
            return f"{text}, not proven: {reasons}"
        return f"{text}, which says nothing" if self.vacuous else text


# --- thresholds -------------------------------------------------------------------------------


def noisy_posterior(eta: ArrayLike, T: ArrayLike) -> NDArray[np.float64]:
    """``eta~ = eta @ T``, the posterior of the given labels, (N, K).

    >>> noisy_posterior([[1.0, 0.0]], [[0.8, 0.2], [0.3, 0.7]])
    array([[0.8, 0.2]])
    """
    e = check_pred_probs(eta, name="eta").astype(np.float64)
    return e @ check_transition(T, e.shape[1])


def threshold_lemma1(a: float, b: float) -> float:
    """Delta of Lemma 1, ``min(a/2 + b, 1 - b - a/2)``, for a classifier ``g = a eta + b``.

    Computed so that it holds bit for bit: a/2 + b is g at eta = 1/2 and rounding is monotone, so no
    rounding of g can put a right label below Delta.
    """
    centre = check_number(a, "a") * 0.5 + check_number(b, "b")
    return min(centre, 1 - centre)


def threshold_theorem1(tau10: float, tau01: float) -> float:
    """Delta of Lemma 2 and Theorem 1, ``(1 - |tau10 - tau01|) / 2``.

    >>> round(threshold_theorem1(0.3, 0.1), 3)
    0.4
    """
    check_flip_rates(tau10, tau01)
    return threshold_lemma1(1 - tau01 - tau10, tau01)


def threshold_theorem2(eta: ArrayLike, T: ArrayLike) -> NDArray[np.float64]:
    """Delta of Theorem 2 for each given label c, (K,): the least pointwise threshold over the rows.

    It is 0 as soon as some row of eta is certain of a class that no other class turns into c, so on
    well separated data the theorem with one threshold per class says little; the pointwise form
    (:func:`pointwise_threshold`) says more.
    """
    return np.minimum(1.0, pointwise_threshold(eta, T).min(axis=0))


def pointwise_threshold(eta: ArrayLike, T: ArrayLike) -> NDArray[np.float64]:
    """``tau_cc eta_s(x) + sum_{j != c} tau_jc eta_j(x)`` for each row x and given label c, (N, K).

    What the noisy posterior of c would be if the runner-up's probability stood in c's place. The
    proof of Theorem 2 compares f with this number at x before taking the minimum over x, so the
    theorem holds with it as a threshold that varies with x.
    """
    e = check_pred_probs(eta, name="eta").astype(np.float64)
    matrix = check_transition(T, e.shape[1])
    runner_up = np.partition(e, -2, axis=1)[:, -2:-1]
    return e @ matrix + np.diag(matrix) * (runner_up - e)


def delta1(
    labels: ArrayLike,
    pred_probs: ArrayLike,
    eta: ArrayLike,
    T: ArrayLike,
    *,
    proof_rows: bool = False,
) -> float:
    """Theorem 3, flipped case: the least over the rows of pointwise threshold of y~ over f_m.

    With `proof_rows` only over the rows that its proof looks at, u = y~ != m, which gives a larger
    and equally valid threshold (1 if there are none).
    """
    y, f, threshold = _aligned(labels, pred_probs, eta, T)
    ratio = threshold[np.arange(len(y)), y] / f.max(axis=1)
    if proof_rows:
        ratio = ratio[(np.asarray(eta).argmax(axis=1) == y) & (f.argmax(axis=1) != y)]
    return float(ratio.min()) if len(ratio) else 1.0


def delta2(
    labels: ArrayLike,
    pred_probs: ArrayLike,
    eta: ArrayLike,
    T: ArrayLike,
    *,
    proof_rows: bool = False,
) -> float:
    """Theorem 3, kept case: the largest over the rows of f_y~ over the pointwise threshold of m.

    As printed the rows with y~ = m take part and push it above 1. With `proof_rows` only the rows
    that the proof looks at count, u = m != y~, which gives a smaller and equally valid threshold (1
    if there are none). Infinite when the threshold of m is 0 somewhere (eta certain of m and
    nothing turns into it).
    """
    y, f, threshold = _aligned(labels, pred_probs, eta, T)
    rows, m = np.arange(len(y)), f.argmax(axis=1)
    below, above = threshold[rows, m], f[rows, y]
    ratio = np.divide(above, below, out=np.full(len(y), np.inf), where=below > 0)
    ratio[above == 0] = 0.0
    if proof_rows:
        ratio = ratio[(np.asarray(eta).argmax(axis=1) == m) & (m != y)]
    return float(ratio.max()) if len(ratio) else 1.0


def delta2_symmetric(
    labels: ArrayLike, pred_probs: ArrayLike, eta: ArrayLike, T: ArrayLike
) -> float:
    """The specificity threshold of symmetric noise (the paper's second fact, case b), kept labels:

    the largest over the rows of ``f_y~ / ((tau_mm - tau) eta_s + tau)``, tau the common rate
    between two classes. The denominator is what the noisy posterior of m would be with the
    runner-up's probability in m's place. Of the rows only those count that its proof looks at, u =
    m != y~ (1 if there are none): as printed all take part, and y~ = m pushes it above 1.

    >>> eta, f = [[0.6, 0.3, 0.1]], [[0.5, 0.3, 0.2]]
    >>> T = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    >>> round(delta2_symmetric([1], f, eta, T), 4)  # 0.3 / (0.7 * 0.3 + 0.1)
    0.9677
    """
    y, f, _ = _aligned(labels, pred_probs, eta, T)
    e, rows = check_pred_probs(eta, name="eta").astype(np.float64), np.arange(len(y))
    own, tau = _symmetric_rates(T, f.shape[1])
    runner_up = np.partition(e, -2, axis=1)[:, -2]
    ratio = f[rows, y] / np.maximum((own - tau) * runner_up + tau, 1e-300)
    m = f.argmax(axis=1)
    ratio = ratio[(e.argmax(axis=1) == m) & (m != y)]
    return float(ratio.max()) if len(ratio) else 1.0


def delta_corollary(tau10: float, tau01: float) -> float:
    """The paper's threshold for two classes, ``(1 - |tau10 - tau01|) / (1 + |tau10 - tau01|)``."""
    check_flip_rates(tau10, tau01)
    gap = abs(tau10 - tau01)
    return (1 - gap) / (1 + gap)


def psi(labels: ArrayLike, pred_probs: ArrayLike, eta: ArrayLike) -> float:
    """Psi = P[u not in {m, y~}], the errors that no threshold can mend, as a share of the rows.

    >>> psi([0, 1], [[0.5, 0.4, 0.1], [0.5, 0.4, 0.1]], [[0.2, 0.2, 0.6], [0.1, 0.7, 0.2]])
    0.5
    """
    f = check_pred_probs(pred_probs)
    e = check_pred_probs(eta, name="eta")
    y = encode_labels(labels, f.shape[1]).codes
    check_same_length(y, f)
    if e.shape != f.shape:
        raise InputError(f"eta: expected the shape of pred_probs {f.shape}, got {e.shape}")
    right = e.argmax(axis=1)
    return float(np.mean((right != f.argmax(axis=1)) & (right != y)))


# --- the statements ---------------------------------------------------------------------------


def lemma1(a: float, b: float) -> Bound:
    """Lemma 1: with ``g = a eta + b`` no right label has ``g_y~ < Delta``, exactly.

    The paper asks for a, b > 0; b may be any number.
    """
    delta = threshold_lemma1(a, b)
    condition = Condition("a > 0", a > 0, f"a = {a:g}")
    return Bound(f"P[y~ is right, g_y~ < {delta:.4g}]", 0.0, (condition,))


def lemma2(tau10: float, tau01: float) -> Bound:
    """Lemma 2: Lemma 1 for the noisy posterior, ``a = 1 - tau01 - tau10``, ``b = tau01``."""
    check_flip_rates(tau10, tau01)
    bound = lemma1(1 - tau01 - tau10, tau01)
    delta = threshold_theorem1(tau10, tau01)
    return Bound(f"P[y~ is right, eta~_y~ < {delta:.4g}]", 0.0, bound.conditions)


def theorem1(
    eps: float, tau10: float, tau01: float, C: float, lam: float, t0: float = 0.5
) -> Bound:
    """Theorem 1, two classes: ``P[y~ = h*, f_y~ < Delta] <= C (eps / (1 - tau01 - tau10))^lambda``.

    No factor of two is needed for the two labels: y~ = 1 puts eta into (1/2, 1/2 + r), y~ = 0 puts
    it into (1/2 - r, 1/2], with r = eps / (1 - tau01 - tau10). The two events are disjoint and
    together lie in {|eta - 1/2| <= r}, which the two-sided Tsybakov condition covers at once.

    >>> bound = theorem1(0.05, 0.2, 0.2, C=0.58, lam=1.27)
    >>> round(bound.value, 4), bound.vacuous
    (0.0247, False)
    """
    rho = check_flip_rates(tau10, tau01)
    e, limit = _check_constants(eps, C, lam, t0, 0.5)
    radius = e / rho
    condition = Condition(
        "eps <= t0 (1 - tau10 - tau01)", e <= limit * rho, f"{e:g} vs {limit * rho:g}"
    )
    delta = threshold_theorem1(tau10, tau01)
    event = f"P[y~ is right, f_y~ < {delta:.4g}]"
    return Bound(event, float(C * radius**lam), (condition,))


def theorem2(
    eps: float, T: ArrayLike, C: float, lam: float, t0: float = 1.0, label: int | None = None
) -> Bound:
    """Theorem 2, K classes: ``P[y~ = h*, f_y~ < Delta(y~)] <= C (eps / tau_yy)^lambda``.

    The event with y~ = c implies a margin below ``eps / tau_cc``. So with `label` = c the result
    bounds P[y~ = c = u, f_c < Delta(c)]. Without it the result bounds the whole sample, all
    labels together: every margin is then below ``eps / min_i tau_ii``, which is what is returned
    (one event, so the classes are not added up). Delta is :func:`threshold_theorem2`, or
    :func:`pointwise_threshold` at each x.
    """
    tau, weakest = _diagonal(T, label)
    e, limit = _check_constants(eps, C, lam, t0, 1.0)
    condition = Condition(
        "eps <= t0 min_i tau_ii", e <= limit * weakest, f"{e:g} vs {limit * weakest:g}"
    )
    event = f"P[y~ is right{_of(label)}, f_y~ < Delta(y~)]"
    return Bound(event, float(C * (e / tau) ** lam), (condition,))


def theorem3_flipped(
    eps: float,
    delta: float,
    delta1: float,
    T: ArrayLike,
    C: float,
    lam: float,
    *,
    psi: float,
    t0: float = 1.0,
    label: int | None = None,
) -> Bound:
    """Theorem 3, flipped labels: ``P[new label wrong, flipped]`` is at most

    ``C ((eps + xi) / tau_yy)^lambda + Psi``.

    `delta` is the threshold in use, :func:`delta1` the ideal one, ``xi = |delta - delta1|``;
    `label` as in :func:`theorem2` (the given label; None: the whole sample with the smallest
    tau_ii). With delta = delta1 this is the paper's Lemma 3.

    The proof applies the Tsybakov condition at ``(eps + xi)/tau``, which must be at most t0. The
    printed ``eps <= (t0 - xi) min tau`` alone does not give that, but the statement stands. If
    delta > delta1, then delta1 < 1 and the other printed condition gives
    ``eps <= t0 min tau - (xi^2 + xi)/delta1^2 <= t0 min tau - xi``. If delta <= delta1, the proof
    needs no xi at all and applies the condition at ``eps/tau <= t0``.
    """
    tau, weakest = _diagonal(T, label)
    e, limit = _check_constants(eps, C, lam, t0, 1.0)
    ideal, xi = _xi(delta, delta1, "delta1")
    conditions = _theorem3_conditions(e, xi, ideal, weakest, limit)
    value = C * ((e + xi) / tau) ** lam + check_number(psi, "psi", at_least=0, at_most=1)
    return Bound(f"P[new label wrong, flipped{_of(label)}]", float(value), conditions)


def theorem3_kept(
    eps: float,
    delta: float,
    delta2: float,
    T: ArrayLike,
    C: float,
    lam: float,
    *,
    psi: float,
    t0: float = 1.0,
    label: int | None = None,
) -> Bound:
    """Theorem 3, kept labels: ``P[new label wrong, kept]`` is at most

    ``C (eps/tau_mm + xi/(delta2^2 tau_mm) + xi^2/(delta2^2 tau_mm))^lambda + Psi``.

    `delta` is the threshold in use, :func:`delta2` the ideal one, ``xi = |delta - delta2|``;
    `label` is the predicted class m (None: the whole sample with the smallest tau_ii).

    The proof arrives at the radius ``(eps + f_y~ xi / (delta2 (delta2 - xi))) / tau_mm`` and then
    replaces ``delta2 / (delta2 - xi)`` by ``1 + xi``, which is smaller, not larger, when
    delta2 - xi < 1. The statement stands because a kept wrong label is not m, so f_y~ <= 1/2, and
    ``delta2 / (delta2 - xi) <= 2 (1 + xi)``, that is ``2 xi (1 + xi) <= delta2 (1 + 2 xi)``: the
    conditions give ``xi (1 + xi) <= delta2^2``, and ``(1 + 2 xi)^2 >= 4 xi (1 + xi)``.
    """
    tau, weakest = _diagonal(T, label)
    e, limit = _check_constants(eps, C, lam, t0, 1.0)
    ideal, xi = _xi(delta, delta2, "delta2")
    conditions = _theorem3_conditions(e, xi, ideal, weakest, limit)
    rest = check_number(psi, "psi", at_least=0, at_most=1)
    if not 0 < ideal < np.inf:  # no radius at all; the conditions have failed
        value = np.inf
    else:
        value = C * ((e + (xi + xi**2) / ideal**2) / tau) ** lam + rest
    return Bound(f"P[new label wrong, kept{_of(label)}]", float(value), conditions)


def corollary(
    eps: float,
    tau10: float,
    tau01: float,
    C: float,
    lam: float,
    t0: float = 0.5,
    delta: float | None = None,
) -> Bound:
    """Binary corollary: ``P[new label != h*] <= C (((1 + d)/2 - q + eps) / rho)^lambda``

    with ``d = |tau10 - tau01|``, ``rho = 1 - tau10 - tau01``, ``q = delta / (1 + delta)``. For the
    paper's delta (the default, :func:`delta_corollary`) q = (1 - d)/2 and the bound is
    ``C ((d + eps) / rho)^lambda``; for delta = 1 it is ``C ((d/2 + eps) / rho)^lambda``.

    The paper prints the second expression for the first delta: its proof replaces q by 1/2 in a
    lower limit, which shrinks the interval. Counter-example: tau10 = 0, tau01 = 0.3, f = eta~,
    eta = 0.15 everywhere. Labels 1 (41% of them) have f = 0.405 >= q = 0.35 and are kept, all
    wrong, while the printed expression may be as small as one likes (no margin is below 0.35).

    Proof of the form used here. For a label y write eta~_y = rho eta_y + c_y - rho/2, where c_y,
    its value at eta_y = 1/2, is (1 + d)/2 for one label and (1 - d)/2 for the other. A right label
    is flipped only if f_y < q, so eta_y < 1/2 + (q - c_y + eps)/rho; a wrong one is kept only if
    f_y >= q, so eta_y >= 1/2 - (c_y - q + eps)/rho. As q <= 1/2, both excesses are at most
    ((1 + d)/2 - q + eps)/rho, so |eta - 1/2| is too, and the Tsybakov condition applies once.
    """
    rho = check_flip_rates(tau10, tau01)
    e, limit = _check_constants(eps, C, lam, t0, 0.5)
    gap = abs(tau10 - tau01)
    threshold = delta_corollary(tau10, tau01) if delta is None else _one_delta(delta)
    excess = (1 + gap) / 2 - threshold / (1 + threshold) + e
    condition = Condition(
        "eps <= t0 (1 - tau10 - tau01) - ((1 + d)/2 - q)",
        excess <= limit * rho,
        f"{e:g} vs {limit * rho - (excess - e):g}",
    )
    printed = float(C) * ((gap / 2 + e) / rho) ** lam
    event = f"P[new label wrong] at delta = {threshold:.4g}"
    value = float(C) * (excess / rho) ** lam
    return Bound(event, value, (condition,), as_printed=printed)


def symmetric_psi(eps: float, eta: ArrayLike, T: ArrayLike) -> Bound:
    """Symmetric noise preserves the argmax: Psi = 0 if eps is below half the smallest gap of eta~.

    Strictly below: at equality f may tie and the tie may go to the wrong class.
    """
    e = check_number(eps, "eps", at_least=0)
    noisy = noisy_posterior(eta, T)
    matrix = check_transition(T, noisy.shape[1])
    k = len(matrix)
    off = matrix[~np.eye(k, dtype=bool)]
    top = np.partition(noisy, -2, axis=1)
    half_gap = float((top[:, -1] - top[:, -2]).min() / 2)
    symmetric = bool(np.ptp(off) <= 1e-9)
    conditions = (
        Condition(
            "all tau_ij (i != j) are equal", symmetric, f"from {off.min():.4g} to {off.max():.4g}"
        ),
        Condition("tau_ii > tau_ij", bool(np.diag(matrix).min() > off.max()), "argmax preserved"),
        Condition("eps < half the least gap of eta~", e < half_gap, f"{e:g} vs {half_gap:g}"),
    )
    return Bound("P[u not in {m, y~}]", 0.0, conditions)


def symmetric_kept(
    eps: float, eta: ArrayLike, T: ArrayLike, C: float, lam: float, t0: float = 1.0
) -> Bound:
    """Symmetric noise, kept labels: ``P[new label wrong, kept] <= C (eps / (tau_ii - tau))^lambda``

    at :func:`delta2_symmetric`, where the paper says ``C (O(eps))^lambda``. Proof: Psi = 0 and m =
    u under the condition on eps (:func:`symmetric_psi`). A kept wrong label has ``f_y~ >= delta
    f_m``, so ``f_m <= (tau_ii - tau) eta_s + tau`` by the choice of delta; and ``f_m >= eta~_u -
    eps = (tau_ii - tau) eta_u + tau - eps``. Hence ``eta_u - eta_s <= eps / (tau_ii - tau)``.
    """
    none = symmetric_psi(eps, eta, T)
    e, limit = _check_constants(eps, C, lam, t0, 1.0)
    own, tau = _symmetric_rates(T, None)
    spread = max(own - tau, 1e-300)
    condition = Condition(
        "eps <= t0 (tau_ii - tau)", e <= limit * spread, f"{e:g} vs {limit * spread:g}"
    )
    value = float(C * (e / spread) ** lam)
    return Bound("P[new label wrong, kept]", value, (*none.conditions, condition))


# --- checks -----------------------------------------------------------------------------------


def check_flip_rates(tau10: float, tau01: float) -> float:
    """Flip rates of two classes; returns rho = 1 - tau10 - tau01 > 0."""
    a = check_number(tau10, "tau10", at_least=0, at_most=1)
    b = check_number(tau01, "tau01", at_least=0, at_most=1)
    if a + b >= 1:
        raise InputError(f"tau10 + tau01: expected a sum below 1, got {a + b:g}")
    return 1 - a - b


def _check_constants(
    eps: float, C: float, lam: float, t0: float, largest: float
) -> tuple[float, float]:
    check_number(C, "C", at_least=0)
    check_number(lam, "lambda", above=0)
    return check_number(eps, "eps", at_least=0), check_number(t0, "t0", above=0, at_most=largest)


def _diagonal(T: ArrayLike, label: int | None) -> tuple[float, float]:
    """The tau_ii that stands in the bound, and the smallest tau_ii."""
    own = np.diag(check_transition(T))
    if own.min() <= 0:
        raise InputError(f"T: expected a positive diagonal, got 0 for class {int(own.argmin())}")
    if label is not None and check_count(label, "label") >= len(own):
        raise InputError(f"label: expected a class in [0, {len(own)}), got {label}")
    return float(own.min() if label is None else own[label]), float(own.min())


def _symmetric_rates(T: ArrayLike, k: int | None) -> tuple[float, float]:
    """tau_ii and the rate between two classes; the smallest and the largest where they differ."""
    matrix = check_transition(T) if k is None else check_transition(T, k)
    off = matrix[~np.eye(len(matrix), dtype=bool)]
    return float(np.diag(matrix).min()), float(off.max())


def _of(label: int | None) -> str:
    return "" if label is None else f", class {label}"


def _one_delta(delta: float) -> float:
    if np.ndim(delta):
        raise InputError(f"delta: expected a number in (0, 1], got shape {np.shape(delta)}")
    return float(check_delta(delta, 2))


def _xi(delta: float, ideal: float, name: str) -> tuple[float, float]:
    best = np.inf if ideal == np.inf else check_number(ideal, name, at_least=0)
    return best, abs(_one_delta(delta) - best)


def _theorem3_conditions(
    eps: float, xi: float, ideal: float, weakest: float, t0: float
) -> tuple[Condition, Condition]:
    """The two conditions printed with Theorem 3."""
    if 0 < ideal < np.inf:
        room = min(t0 * weakest - (xi**2 + xi) / ideal**2, (t0 - xi) * weakest)
    else:
        room = -np.inf
    return (
        Condition("xi < ideal delta", xi < ideal, f"{xi:g} vs {ideal:g}"),
        Condition(
            "eps <= min(t0 min tau_ii - (xi^2 + xi)/delta^2, (t0 - xi) min tau_ii)",
            eps <= room,
            f"{eps:g} vs {room:g}",
        ),
    )


def _aligned(
    labels: ArrayLike, pred_probs: ArrayLike, eta: ArrayLike, T: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    f = check_pred_probs(pred_probs).astype(np.float64)
    y = encode_labels(labels, f.shape[1]).codes
    check_same_length(y, f)
    threshold = pointwise_threshold(eta, T)
    if threshold.shape != f.shape:
        raise InputError(f"eta: expected the shape of pred_probs {f.shape}, got {threshold.shape}")
    return y, f, threshold
