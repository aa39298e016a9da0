"""The bounds against simulation: the theorem's implications hold row by row, so with a Tsybakov
constant that is exact for the drawn sample the observed share may never exceed the bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacorr.core import noise
from adacorr.core.lrt import ThresholdRule
from adacorr.core.validation import InputError
from adacorr.paper.theory import bounds
from adacorr.paper.theory.tsybakov import binary_margin, envelope_constant, multiclass_margin

N = 100_000
SEEDS = st.integers(0, 2**32 - 1)
SHARES = st.floats(0, 1)
RATES = st.tuples(st.floats(0, 0.95), st.floats(0, 0.95)).filter(lambda pair: sum(pair) < 0.95)
SHAPES = st.floats(0.3, 4)
LAMBDAS = st.floats(0.05, 2.5)  # a small one makes C t^lambda nearly the share at t0: no slack
SIMULATION = settings(max_examples=25, deadline=None)


# --- simulation -------------------------------------------------------------------------------


def draw_labels(rng, posterior):
    edges = np.cumsum(posterior, axis=1)[:, :-1]
    return (rng.random(len(posterior))[:, None] >= edges).sum(axis=1)


def perturb(rng, posterior, target, eps):
    """Probabilities within eps of `posterior`: half or all of the rows pushed against class
    `target` as far as the simplex allows, the others at random; and the distance truly used."""
    n, k = posterior.shape
    move = rng.uniform(-1, 1, (n, k))
    against = rng.random(n) < rng.choice([0.5, 1.0])
    move[against] = 1.0 / (k - 1)
    move[np.arange(n)[against], target[against]] = -1.0
    move -= move.mean(axis=1, keepdims=True)
    move *= eps / np.abs(move).max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        room = np.divide(posterior, -move, out=np.full((n, k), np.inf), where=move < 0)
    f = posterior + np.minimum(1, room.min(axis=1, keepdims=True)) * move
    f = np.clip(f, 0, 1)
    return f, float(np.abs(f - posterior).max())


def binary_sample(seed, rates, a, b):
    rng = np.random.default_rng(seed)
    tau10, tau01 = rates
    eta = rng.beta(a, b, N)
    eta = eta[eta != 0.5]
    T = np.array([[1 - tau01, tau01], [tau10, 1 - tau10]])
    posterior = bounds.noisy_posterior(np.column_stack([1 - eta, eta]), T)
    return rng, eta, posterior, draw_labels(rng, posterior)


def multiclass_sample(seed, k, noise, flat):
    rng = np.random.default_rng(seed)
    eta = (1 - flat) * rng.dirichlet(np.full(k, 0.7), N) + flat / k
    T = (1 - noise) * np.eye(k) + noise * rng.dirichlet(np.ones(k), k)
    posterior = bounds.noisy_posterior(eta, T)
    return rng, eta, T, posterior, draw_labels(rng, posterior)


# --- Lemmas 1 and 2: exactly zero -------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(SEEDS, st.floats(1e-6, 1), SHARES)
def test_lemma1_has_no_violation_bit_for_bit(seed, a, share):
    b = share * (1 - a)
    rng = np.random.default_rng(seed)
    eta = np.concatenate([rng.random(2000), 0.5 + rng.normal(0, 1e-15, 2000), [0.0, 0.5, 1.0]])
    g = a * eta + b
    label = rng.integers(0, 2, len(eta))
    right = label == (eta > 0.5)
    own = np.where(label == 1, g, 1 - g)
    assert not (right & (own < bounds.threshold_lemma1(a, b))).any()
    assert bounds.lemma1(a, b).value == 0
    assert bounds.lemma1(a, b).valid


@settings(max_examples=200, deadline=None)
@given(SEEDS, RATES)
def test_lemma2_has_no_violation_bit_for_bit(seed, rates):
    tau10, tau01 = rates
    rng = np.random.default_rng(seed)
    eta = np.concatenate([rng.random(2000), 0.5 + rng.normal(0, 1e-15, 2000), [0.0, 0.5, 1.0]])
    noisy = (1 - tau01 - tau10) * eta + tau01
    label = rng.integers(0, 2, len(eta))
    right = label == (eta > 0.5)
    delta = bounds.threshold_theorem1(tau10, tau01)
    assert not (right & (np.where(label == 1, noisy, 1 - noisy) < delta)).any()
    assert delta == pytest.approx((1 - abs(tau10 - tau01)) / 2, abs=1e-12)
    assert str(bounds.lemma2(tau10, tau01)).endswith("<= 0")


def test_lemma1_threshold_cannot_be_larger():
    # Just above Delta there are right labels: the threshold is the largest possible.
    a, b = 0.6, 0.1
    eta = np.nextafter(0.5, 1)
    assert a * eta + b < bounds.threshold_lemma1(a, b) + 1e-9


# --- Theorem 1 and the corollary --------------------------------------------------------------


@SIMULATION
@given(SEEDS, RATES, SHAPES, SHAPES, st.floats(0.05, 0.999), LAMBDAS, st.floats(0.05, 0.5))
def test_theorem1_is_never_exceeded(seed, rates, a, b, part, lam, t0):
    rng, eta, posterior, label = binary_sample(seed, rates, a, b)
    wanted = part * t0 * (1 - sum(rates))
    right = label == (eta > 0.5)
    f, eps = perturb(rng, posterior, label, wanted)
    C = envelope_constant(binary_margin(eta), lam, t0)
    bound = bounds.theorem1(min(eps, wanted), *rates, C, lam, t0)
    assert bound.valid
    low = f[np.arange(len(f)), label] < bounds.threshold_theorem1(*rates) - 1e-12
    assert np.mean(right & low) <= bound.value


def test_theorem1_is_attained_so_the_simulation_could_fail():
    # Uniform eta, symmetric noise, every right label pushed down by eps: only the draw of the
    # labels (right with probability near 1/2 close to the boundary) separates the two sides.
    rng = np.random.default_rng(0)
    eta = rng.random(N)
    noisy = 0.6 * eta + 0.2
    label = (rng.random(N) < noisy).astype(int)
    eps = 0.06
    f = np.where(label == 1, noisy, 1 - noisy) - eps
    share = np.mean((label == (eta > 0.5)) & (f < 0.5))
    bound = bounds.theorem1(eps, 0.2, 0.2, C=2.0, lam=1.0)  # P[|eta - 1/2| <= t] = 2 t
    assert 0.5 * bound.value < share <= bound.value
    assert share > bounds.theorem1(eps / 3, 0.2, 0.2, 2.0, 1.0).value


@SIMULATION
@given(
    SEEDS,
    RATES,
    st.floats(0.3, 4),
    st.floats(0.3, 4),
    SHARES,
    LAMBDAS,
    st.one_of(st.none(), st.floats(0.3, 1)),
)
def test_corollary_is_never_exceeded(seed, rates, a, b, part, lam, delta):
    rng, eta, posterior, label = binary_sample(seed, rates, a, b)
    used = bounds.delta_corollary(*rates) if delta is None else delta
    rho, gap = 1 - sum(rates), abs(rates[0] - rates[1])
    wanted = part * max(0.0, 0.5 * rho - ((1 + gap) / 2 - used / (1 + used)))
    right = (eta > 0.5).astype(int)
    f, eps = perturb(rng, posterior, right, wanted) if wanted else (posterior, 0.0)
    decision = ThresholdRule.create(used, 2).decide(label, f)
    new = np.where(decision.flipped, decision.suggested, label)
    C = envelope_constant(binary_margin(eta), lam, 0.5)
    bound = bounds.corollary(eps, *rates, C, lam, 0.5, delta)
    if bound.valid:
        assert np.mean(new != right) <= bound.value + 1e-12


def test_corollary_as_printed_is_exceeded():
    # The counter-example of the docstring: this is why `value` is not the printed expression.
    tau10, tau01, lam, t0 = 0.0, 0.3, 1.0, 0.3
    rng = np.random.default_rng(0)
    eta = np.full(N, 0.15)
    posterior = bounds.noisy_posterior(
        np.column_stack([1 - eta, eta]), [[1 - tau01, tau01], [tau10, 1 - tau10]]
    )
    label = draw_labels(rng, posterior)
    decision = ThresholdRule.create(bounds.delta_corollary(tau10, tau01), 2).decide(
        label, posterior
    )
    wrong = np.mean(np.where(decision.flipped, decision.suggested, label) != 0)
    assert wrong == pytest.approx(0.405, abs=0.01)
    C = envelope_constant(binary_margin(eta), lam, t0)
    assert C == 0  # no margin up to t0
    bound = bounds.corollary(0.0, tau10, tau01, C, lam, t0)
    assert bound.as_printed < wrong  # with its printed condition met: 0 <= 0.3 * 0.7 - 0.15
    assert not bound.valid  # ours asks for 0.3 <= t0 * 0.7


def test_corollary_needs_no_repair_for_symmetric_noise_and_at_delta_one():
    symmetric = bounds.corollary(0.05, 0.2, 0.2, 0.6, 1.3)
    assert symmetric.value == pytest.approx(symmetric.as_printed)
    assert symmetric.value == pytest.approx(0.6 * (0.05 / 0.6) ** 1.3)
    at_one = bounds.corollary(0.05, 0.3, 0.1, 0.6, 1.3, delta=1.0)
    assert at_one.value == pytest.approx(at_one.as_printed)
    default = bounds.corollary(0.05, 0.3, 0.1, 0.6, 1.3)
    assert default.value == pytest.approx(0.6 * (0.25 / 0.6) ** 1.3)


# --- Theorems 2 and 3 -------------------------------------------------------------------------

MULTICLASS = (SEEDS, st.integers(2, 6), st.floats(0, 0.6), st.floats(0.05, 0.9), LAMBDAS)


@settings(max_examples=15, deadline=None)
@given(*MULTICLASS, st.floats(0.02, 1), st.floats(0.05, 1))
def test_theorem2_is_never_exceeded(seed, k, noise, flat, lam, part, t0):
    rng, eta, T, posterior, label = multiclass_sample(seed, k, noise, flat)
    rows = np.arange(N)
    f, eps = perturb(rng, posterior, label, part * t0 * np.diag(T).min())
    right = label == eta.argmax(axis=1)
    C = envelope_constant(multiclass_margin(eta), lam, t0)
    own, tiny = f[rows, label], 1e-12
    bound = bounds.theorem2(min(eps, t0 * np.diag(T).min()), T, C, lam, t0)
    assert bound.valid
    pointwise = bounds.pointwise_threshold(eta, T)[rows, label]
    assert np.mean(right & (own < pointwise - tiny)) <= bound.value
    uniform = bounds.threshold_theorem2(eta, T)
    low = right & (own < uniform[label] - tiny)
    assert np.mean(low) <= bound.value
    for c in range(k):
        of_class = bounds.theorem2(min(eps, t0 * np.diag(T).min()), T, C, lam, t0, label=c)
        assert np.mean(low & (label == c)) <= of_class.value
        assert of_class.value <= bound.value * (1 + 1e-12)


@settings(max_examples=15, deadline=None)
@given(*MULTICLASS, st.floats(0.0, 0.3), st.floats(0.0, 1.0), st.booleans(), st.booleans())
def test_theorem3_is_never_exceeded(seed, k, noise, flat, lam, part, away, proof_rows, at_right):
    rng, eta, T, posterior, label = multiclass_sample(seed, k, noise, flat)
    u, weakest = eta.argmax(axis=1), np.diag(T).min()
    # Against the given label: right ones get flipped. Against the right one: wrong ones are kept.
    f, eps = perturb(rng, posterior, u if at_right else label, part * weakest)
    margins = multiclass_margin(eta)
    share = bounds.psi(label, f, eta)
    ideal1 = bounds.delta1(label, f, eta, T, proof_rows=proof_rows)
    ideal2 = bounds.delta2(label, f, eta, T, proof_rows=proof_rows)
    for delta in (ideal1, ideal1 + away * ideal1**2, ideal2 * (1 - 0.5 * away), 1.0):
        delta = float(np.clip(delta, 1e-6, 1))
        decision = ThresholdRule.create(delta, k).decide(label, f)
        new = np.where(decision.flipped, decision.suggested, label)
        for theorem, ideal, event in (
            (bounds.theorem3_flipped, ideal1, decision.flipped & (new != u)),
            (bounds.theorem3_kept, ideal2, ~decision.flipped & (new != u)),
        ):
            t0 = least_t0(eps, abs(delta - ideal), ideal, weakest)
            C = envelope_constant(margins, lam, t0)
            bound = theorem(eps, delta, ideal, T, C, lam, psi=share, t0=t0)
            if bound.valid:
                assert np.mean(event) <= bound.value


def least_t0(eps, xi, ideal, weakest):
    """The smallest t0 that Theorem 3 allows, where its bound has the least slack; at most 1."""
    with np.errstate(all="ignore"):
        needed = max((eps + (xi**2 + xi) / ideal**2) / weakest, eps / weakest + xi)
    return float(np.clip(np.nan_to_num(needed, nan=1.0) * (1 + 1e-9), 1e-3, 1))


def nearly_decided(rng, against, eps):
    """Two classes, class 0 right everywhere; 30% of the points have a margin of 0.02, so about half
    of their labels are right. There f takes `eps` from class 0 where the label is `against`."""
    close = rng.random(N) < 0.3
    eta = np.where(close, 0.51, 0.95)
    eta = np.column_stack([eta, 1 - eta])
    label = draw_labels(rng, eta)
    pushed = close & (label == against)
    return eta, label, eta + eps * np.where(pushed[:, None], [-1, 1], 0), pushed


def test_theorem2_is_attained_so_the_simulation_could_fail():
    T, lam, eps = np.eye(2), 0.05, 0.021
    eta, label, f, _ = nearly_decided(np.random.default_rng(0), 0, eps)
    rows = np.arange(N)
    low = f[rows, label] < bounds.pointwise_threshold(eta, T)[rows, label] - 1e-12
    C = envelope_constant(multiclass_margin(eta), lam, eps)
    share, bound = np.mean(low & (label == 0)), bounds.theorem2(eps, T, C, lam, eps)
    assert bound.valid
    assert 0.49 * bound.value < share <= bound.value  # half of the near labels are right


@pytest.mark.parametrize("kept", [False, True])
def test_theorem3_is_attained_so_the_simulation_could_fail(kept):
    T, lam, eps = np.eye(2), 0.05, 0.0085 if kept else 0.021  # kept: class 0 stays ahead in f
    eta, label, f, pushed = nearly_decided(np.random.default_rng(0), int(kept), eps)
    ratio = f[pushed].min(axis=1) / f[pushed].max(axis=1)
    delta = float(ratio.min() if kept else ratio.max() + 1e-9)
    decision = ThresholdRule.create(delta, 2).decide(label, f)
    share = np.mean(np.where(decision.flipped, label == 0, label == 1) & (decision.flipped != kept))
    find, theorem = (
        (bounds.delta2, bounds.theorem3_kept) if kept else (bounds.delta1, bounds.theorem3_flipped)
    )
    ideal = find(label, f, eta, T, proof_rows=True)
    t0 = least_t0(eps, abs(delta - ideal), ideal, 1.0)
    C = envelope_constant(multiclass_margin(eta), lam, t0)
    bound = theorem(eps, delta, ideal, T, C, lam, psi=bounds.psi(label, f, eta), t0=t0)
    assert bound.valid
    assert 0.45 * bound.value < share <= bound.value


@pytest.mark.parametrize(("proof_rows", "flat"), [(False, 0.8), (True, 0.3)])
def test_theorem3_has_cases_that_are_valid_and_not_vacuous(proof_rows, flat):
    rng, eta, T, posterior, label = multiclass_sample(1, 3, 0.1, flat)
    f, eps = perturb(rng, posterior, label, 0.01)
    margins = multiclass_margin(eta)
    C = np.mean(margins <= 0.5) / 0.5  # the order of the constant is enough here
    share = bounds.psi(label, f, eta)
    ideal1 = bounds.delta1(label, f, eta, T, proof_rows=proof_rows)
    ideal2 = bounds.delta2(label, f, eta, T, proof_rows=proof_rows)
    delta = float(np.clip(ideal1 + 1e-3, 0, 1))
    flipped = bounds.theorem3_flipped(eps, delta, ideal1, T, C, 1.0, psi=share)
    kept = bounds.theorem3_kept(eps, min(1.0, ideal2), ideal2, T, C, 1.0, psi=share)
    assert flipped.valid
    assert not flipped.vacuous
    assert kept.valid
    assert not kept.vacuous


@SIMULATION
@given(SEEDS, st.integers(2, 6), st.floats(0, 0.9), st.floats(0.3, 2), st.floats(0, 2))
def test_symmetric_noise_leaves_no_psi(seed, k, rate, spread, part):
    rng = np.random.default_rng(seed)
    rate *= (k - 1) / k
    T = np.full((k, k), rate / (k - 1))
    np.fill_diagonal(T, 1 - rate)
    eta = rng.dirichlet(np.full(k, spread), 500)
    eta = eta[multiclass_margin(eta) > 0.05]
    posterior = bounds.noisy_posterior(eta, T)
    half_gap = multiclass_margin(posterior).min() / 2
    label = draw_labels(rng, posterior)
    f, eps = perturb(rng, posterior, eta.argmax(axis=1), part * half_gap)
    bound = bounds.symmetric_psi(eps, eta, T)
    assert bound.valid == (eps < half_gap)
    if bound.valid:
        assert bounds.psi(label, f, eta) == 0


# --- formulae against plain loops -------------------------------------------------------------


def test_thresholds_equal_plain_loops():
    rng = np.random.default_rng(3)
    n, k = 40, 4
    eta, f = rng.dirichlet(np.ones(k), n), rng.dirichlet(np.ones(k), n)
    T, label = rng.dirichlet(np.ones(k), k), rng.integers(0, k, n)
    pointwise = np.empty((n, k))
    for i in range(n):
        s = sorted(eta[i])[-2]
        for c in range(k):
            others = sum(T[j, c] * eta[i, j] for j in range(k) if j != c)
            pointwise[i, c] = T[c, c] * s + others
    assert np.allclose(bounds.pointwise_threshold(eta, T), pointwise)
    uniform = [min(1, min(pointwise[i, c] for i in range(n))) for c in range(k)]
    assert np.allclose(bounds.threshold_theorem2(eta, T), uniform)
    m = f.argmax(axis=1)
    first = min(pointwise[i, label[i]] / f[i, m[i]] for i in range(n))
    second = max(f[i, label[i]] / pointwise[i, m[i]] for i in range(n))
    assert bounds.delta1(label, f, eta, T) == pytest.approx(first)
    assert bounds.delta2(label, f, eta, T) == pytest.approx(second)
    u = eta.argmax(axis=1)
    missed = sum(u[i] not in (m[i], label[i]) for i in range(n)) / n
    assert bounds.psi(label, f, eta) == pytest.approx(missed)


def test_delta2_is_infinite_when_nothing_turns_into_a_certain_class():
    eta = f = np.array([[1.0, 0.0], [0.6, 0.4]])
    assert bounds.delta2([0, 0], f, eta, np.eye(2)) == np.inf
    bound = bounds.theorem3_kept(0.0, 0.9, np.inf, np.eye(2), 1.0, 1.0, psi=0.0)
    assert bound.vacuous
    assert bounds.delta2([1, 1], f, eta, np.eye(2)) == pytest.approx(0.4 / 0.4)


def test_values_are_those_of_the_paper():
    T = np.array([[0.8, 0.2], [0.3, 0.7]])
    C, lam = 0.5, 1.2
    assert bounds.theorem1(0.1, 0.3, 0.2, C, lam).value == pytest.approx(C * (0.1 / 0.5) ** lam)
    assert bounds.theorem2(0.1, T, C, lam).value == pytest.approx(C * (0.1 / 0.7) ** lam)
    assert bounds.theorem2(0.1, T, C, lam, label=0).value == pytest.approx(C * (0.1 / 0.8) ** lam)
    flipped = bounds.theorem3_flipped(0.1, 0.75, 0.7, T, C, lam, psi=0.01)
    assert flipped.value == pytest.approx(C * (0.15 / 0.7) ** lam + 0.01)
    kept = bounds.theorem3_kept(0.1, 0.75, 0.7, T, C, lam, psi=0.01, label=0)
    radius = 0.1 / 0.8 + 0.05 / (0.49 * 0.8) + 0.05**2 / (0.49 * 0.8)
    assert kept.value == pytest.approx(C * radius**lam + 0.01)
    assert bounds.delta_corollary(0.3, 0.1) == pytest.approx(0.8 / 1.2)


@pytest.mark.parametrize(
    ("bound", "name"),
    [
        (bounds.theorem1(0.4, 0.2, 0.2, 1.0, 1.0), "eps <= t0"),
        (bounds.theorem2(0.9, np.eye(3) * 0.7 + 0.1, 1.0, 1.0), "eps <= t0 min_i"),
        (bounds.theorem3_flipped(0.0, 0.9, 0.4, np.eye(2), 1, 1, psi=0), "xi < ideal"),
        (bounds.theorem3_kept(0.5, 0.8, 0.7, np.eye(2), 1, 1, psi=0, t0=0.3), "eps <= min("),
        (bounds.corollary(0.2, 0.3, 0.0, 1.0, 1.0), "eps <= t0 (1 - tau10 - tau01) -"),
        (bounds.lemma1(-0.1, 0.5), "a > 0"),
        (bounds.symmetric_psi(0.0, [[0.6, 0.4]], [[0.9, 0.1], [0.2, 0.8]]), "all tau_ij"),
    ],
)
def test_a_failed_condition_is_named_and_makes_the_bound_vacuous(bound, name):
    assert bound.vacuous
    assert bound.failed[0].name.startswith(name)
    assert "not proven" in str(bound)


def test_a_bound_of_one_or_more_is_vacuous_though_valid():
    bound = bounds.theorem1(0.3, 0.2, 0.2, 2.1, 1.0)
    assert bound.valid
    assert bound.vacuous
    assert "says nothing" in str(bound)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.theorem1(0.1, 0.2, 0.2, 1.0, 0.0), "lambda: expected a number > 0, got 0"),
        (lambda: bounds.theorem1(0.1, 0.2, 0.2, 1.0, -1), "lambda: expected a number > 0"),
        (lambda: bounds.theorem1(-0.1, 0.2, 0.2, 1.0, 1.0), "eps: expected a number >= 0"),
        (lambda: bounds.theorem1(0.1, 0.6, 0.4, 1.0, 1.0), r"tau10 \+ tau01: expected"),
        (lambda: bounds.theorem1(0.1, 0.2, 0.2, 1.0, 1.0, t0=0.7), "t0: expected"),
        (lambda: bounds.theorem2(0.1, [[0, 1], [1, 0]], 1.0, 1.0), "T: expected a positive diag"),
        (lambda: bounds.theorem2(0.1, np.eye(2), 1.0, 1.0, label=2), "label: expected a class"),
        (lambda: bounds.corollary(0.1, 0.1, 0.1, 1, 1, delta=1.5), r"delta: expected .* \(0, 1\]"),
        (lambda: bounds.theorem3_kept(0, 0.0, 0.5, np.eye(2), 1, 1, psi=0), "delta: expected"),
        (lambda: bounds.psi([0], [[0.5, 0.5]], [[0.2, 0.3, 0.5]]), "eta: expected the shape"),
        (lambda: bounds.lemma1("a", 0.1), "a: expected a number that is finite"),
        (lambda: bounds.lemma1(np.nan, 0.1), "a: expected a number that is finite"),
        (lambda: bounds.theorem2(0.1, np.eye(2), 1, 1, label=0.5), "label: expected a whole"),
        (
            lambda: bounds.theorem3_kept(0, np.eye(2), 0.5, np.eye(2), 1, 1, psi=0),
            r"delta: expected a number in \(0, 1\], got shape",
        ),
        (
            lambda: bounds.theorem3_kept(0, 0.9, "a", np.eye(2), 1, 1, psi=0),
            "delta2: expected a number >= 0",
        ),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(InputError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


# -- symmetric noise; Theorem 3, kept, where it is valid ------------------------------------------


def kept_and_wrong(label, f, u, delta):
    """Rows that LRT-Correction at delta leaves with a wrong label."""
    decision = ThresholdRule.create(delta, f.shape[1]).decide(label, f)
    new = np.where(decision.flipped, decision.suggested, label)
    return ~decision.flipped & (new != u)


def least_favourable(eta, T, label, eps):
    """f within eps of the noisy posterior that keeps as many wrong labels as it can.

    Where the given label is wrong it takes eps from the right class and gives it to the label, as
    far as the right class stays ahead: then the label is hard to reject, and Psi stays 0.
    """
    f, rows, u = eta @ T, np.arange(len(eta)), eta.argmax(axis=1)
    gap = f[rows, u] - f[rows, label]
    push = np.where(label == u, 0.0, np.minimum(eps, np.maximum(gap / 2 - 1e-9, 0)))
    f[rows, u] -= push
    f[rows, label] += push
    return f


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("eps", [0.002, 0.01, 0.03])
def test_theorem3_kept_holds_where_it_is_valid_against_an_adversarial_f(seed, k, eps):
    """Little noise and no near-certain row, so that delta2 is about 1; delta at it and below."""
    rng = np.random.default_rng(seed)
    T = noise.uniform(k, 0.01 * seed)
    eta = rng.dirichlet(np.full(k, 8.0), 20_000)
    label = noise.inject(draw_classes(rng, eta), T, rng)
    u, weakest, margins = eta.argmax(axis=1), np.diag(T).min(), multiclass_margin(eta)
    f = least_favourable(eta, T, label, eps)
    ideal = bounds.delta2(label, f, eta, T, proof_rows=True)
    share = bounds.psi(label, f, eta)
    for below in (0.0, 0.02, 0.1):
        delta = min(ideal, 1.0) - below
        xi = abs(ideal - delta)
        t0 = least_t0(eps, xi, ideal, weakest)
        C = envelope_constant(margins, 1.0, t0)
        bound = bounds.theorem3_kept(eps, delta, ideal, T, C, 1.0, psi=share, t0=t0)
        assert bound.valid, "no case is passed over"
        assert np.mean(kept_and_wrong(label, f, u, delta)) <= bound.value


def draw_classes(rng, eta):
    return (rng.random(len(eta))[:, None] >= np.cumsum(eta, axis=1)[:, :-1]).sum(axis=1)


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("rate", [0.1, 0.4])
@pytest.mark.parametrize("part", [0.2, 0.9])
def test_symmetric_noise_kept_holds_and_its_threshold_is_the_smaller_one(k, rate, part):
    rng = np.random.default_rng(k)
    T = noise.uniform(k, rate)
    eta = rng.dirichlet(np.full(k, 0.5), 40_000)
    eta = eta[multiclass_margin(eta) > 0.05]
    noisy = np.sort(eta @ T, axis=1)
    eps = part * float((noisy[:, -1] - noisy[:, -2]).min() / 2)
    label = noise.inject(draw_classes(rng, eta), T, rng)
    u, f = eta.argmax(axis=1), least_favourable(eta, T, label, eps)
    delta = bounds.delta2_symmetric(label, f, eta, T)
    assert delta <= bounds.delta2(label, f, eta, T, proof_rows=True) + 1e-12
    t0 = 1.5 * eps / (T[0, 0] - T[0, 1])
    C = envelope_constant(multiclass_margin(eta), 1.0, t0)
    bound = bounds.symmetric_kept(eps, eta, T, C, 1.0, t0)
    assert bound.valid
    wrong = kept_and_wrong(label, f, u, min(delta, 1.0))
    assert np.mean(wrong) <= bound.value
    uneven = bounds.symmetric_kept(eps, eta, noise.pair(k, rate), C, 1.0, t0)
    assert uneven.valid == (k == 2)


def test_delta2_symmetric_equals_a_plain_loop():
    rng = np.random.default_rng(1)
    T, eta = noise.uniform(4, 0.3), rng.dirichlet(np.ones(4), 50)
    f, label = rng.dirichlet(np.ones(4), 50), rng.integers(0, 4, 50)
    best = []
    for row, e, y in zip(f, eta, label, strict=True):
        m = int(row.argmax())
        if m != y and int(e.argmax()) == m:
            best.append(row[y] / ((T[m, m] - T[y, m]) * sorted(e)[-2] + T[y, m]))
    assert bounds.delta2_symmetric(label, f, eta, T) == pytest.approx(max(best))
