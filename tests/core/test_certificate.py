import tracemalloc
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adacorr.core import certificate
from adacorr.core.validation import InputError

SEEDS = st.integers(0, 2**32 - 1)


def random_T(rng, k, noise):
    return (1 - noise) * np.eye(k) + noise * rng.dirichlet(np.ones(k), k)


# --- certified radius -------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(2, 6), st.floats(0, 0.7))
def test_radius_equals_the_formula_in_loops(seed, k, noise):
    rng = np.random.default_rng(seed)
    T, f = random_T(rng, k, noise), rng.dirichlet(np.ones(k), 20)
    result = certificate.certified_radius(f, T)
    M = np.linalg.inv(T).T
    for row, label, radius in zip(f, result.labels, result.radius, strict=True):
        g = M @ row
        m = int(np.argmax(g))
        worst = min((g[m] - g[j]) / np.abs(M[m] - M[j]).sum() for j in range(k) if j != m)
        assert label == m
        assert radius == pytest.approx(worst, abs=1e-12)


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.integers(2, 6), st.floats(0, 0.8), st.floats(0, 0.2), st.booleans())
def test_certified_labels_are_never_wrong(seed, k, noise, eps, symmetric):
    rng = np.random.default_rng(seed)
    rate = noise * (k - 1) / k
    T = np.full((k, k), rate / (k - 1)) + (1 - rate - rate / (k - 1)) * np.eye(k)
    T = T if symmetric else random_T(rng, k, noise)
    eta = rng.dirichlet(np.full(k, 0.7), 100_000)
    posterior = eta @ T
    move = rng.choice([-1.0, 1.0], posterior.shape)
    move -= move.mean(axis=1, keepdims=True)
    move *= eps / np.maximum(np.abs(move).max(axis=1, keepdims=True), 1e-12)
    with np.errstate(over="ignore"):
        room = np.divide(posterior, -move, out=np.full(move.shape, np.inf), where=move < 0)
    f = np.clip(posterior + np.minimum(1, room.min(axis=1, keepdims=True)) * move, 0, 1)
    used = float(np.abs(f - posterior).max())
    result = certificate.certified_radius(f, None if symmetric else T)
    sure = result.survives(used + 1e-12)
    assert (result.labels[sure] == eta.argmax(axis=1)[sure]).all()


def test_radius_is_the_largest_possible():
    # A move of just more than the radius, in the worst direction, changes the label; less does not.
    rng = np.random.default_rng(0)
    T, f = random_T(rng, 4, 0.4), rng.dirichlet(np.ones(4), 200)
    result = certificate.certified_radius(f, T)
    M = np.linalg.inv(T).T
    for row, m, radius in zip(f, result.labels, result.radius, strict=True):

        def label_after(step, row=row, m=m):
            moved = [row - step * np.sign(M[m] - M[j]) for j in range(4) if j != m]
            return {int((M @ r).argmax()) for r in moved}

        assert label_after(radius * (1 - 1e-6)) == {m}
        assert label_after(radius * (1 + 1e-6)) != {m}


def test_symmetric_shortcut_equals_any_symmetric_T():
    f = np.random.default_rng(0).dirichlet(np.ones(5), 300)
    for rate in (0.0, 0.3, 0.7):
        T = np.full((5, 5), rate / 4) + (1 - rate * 5 / 4) * np.eye(5)
        general, short = certificate.certified_radius(f, T), certificate.certified_radius(f)
        assert np.array_equal(general.labels, short.labels)
        assert np.allclose(general.radius, short.radius)
    top = np.sort(f, axis=1)
    assert np.allclose(short.radius, (top[:, -1] - top[:, -2]) / 2)


def test_survives_asks_for_the_label_too():
    result = certificate.certified_radius([[0.7, 0.3], [0.7, 0.3], [0.5, 0.5]])
    assert result.survives(0.1, labels=[0, 1, 0]).tolist() == [True, False, False]
    assert result.survives(0.2).tolist() == [False, False, False]  # the radius itself is excluded
    with pytest.raises(InputError, match="labels: expected shape"):
        result.survives(0.1, labels=[0])
    with pytest.raises(InputError, match="eps: expected a number >= 0"):
        result.survives(-0.1)


def test_memory_stays_far_below_n_k_k():
    rng = np.random.default_rng(0)
    n, k = 300, 600
    f, T = rng.dirichlet(np.ones(k), n), random_T(rng, k, 0.3)
    tracemalloc.start()
    certificate.certified_radius(f, T)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * 8 * n * k * k


def test_chunks_do_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(0)
    f, T = rng.dirichlet(np.ones(3), 100), random_T(rng, 3, 0.3)
    whole, mass = certificate.certified_radius(f, T), certificate.negative_mass(f, T)
    monkeypatch.setattr(certificate, "_CHUNK_ELEMENTS", 21)
    parts, pieces = certificate.certified_radius(f, T), certificate.negative_mass(f, T)
    assert np.allclose(whole.radius, parts.radius)
    assert np.array_equal(whole.labels, parts.labels)
    assert np.allclose(mass.mass, pieces.mass)


# --- audit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 20, 59, 200])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_limit_is_the_clopper_pearson_one(n, confidence):
    for wrong in {0, 1, n // 3, n}:
        if wrong > n:
            continue
        exact = stats.binomtest(wrong, n, alternative="less").proportion_ci(confidence, "exact")
        limit = certificate.flip_error_limit(wrong, n, confidence)
        assert limit == pytest.approx(exact.high, abs=1e-9)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_limit_holds_at_its_confidence_for_every_share(confidence):
    n = 60
    limits = np.array([certificate.flip_error_limit(w, n, confidence) for w in range(n + 1)])
    for p in np.linspace(0.001, 0.999, 150):
        covered = stats.binom.pmf(np.arange(n + 1), n, p) @ (limits >= p)
        assert covered >= confidence


@pytest.mark.parametrize("finite", [False, True])
def test_limit_holds_over_2000_simulated_audits(finite):
    rng = np.random.default_rng(0)
    limit = cache(certificate.flip_error_limit)
    confidence, missed = 0.95, 0
    for _ in range(2000):
        n_flips, reviewed = int(rng.choice([150, 1000])), int(rng.choice([30, 80]))
        wrong_flips = rng.binomial(n_flips, rng.beta(1, 8))
        found = int(rng.hypergeometric(wrong_flips, n_flips - wrong_flips, reviewed))
        upper = limit(found, reviewed, confidence, n_flips=n_flips if finite else None)
        missed += wrong_flips / n_flips > upper
    assert missed <= stats.binom.ppf(0.999, 2000, 1 - confidence)
    assert missed > 5  # and it is not so wide that it says nothing


@pytest.mark.parametrize("finite", [False, True])
def test_limit_holds_over_2000_audits_at_the_hardest_share(finite):
    # The share just above the limit for 3 wrong of 80: up to 3 wrong miss it, 5% of the samples. A
    # limit a fifth lower would miss it with 4 wrong as well, twice as often.
    rng = np.random.default_rng(0)
    n_flips, reviewed = 1000, 80
    size = n_flips if finite else None
    limit = cache(lambda found: certificate.flip_error_limit(found, reviewed, n_flips=size))
    if finite:
        wrong_flips = round(limit(3) * n_flips) + 1
        share = wrong_flips / n_flips
        found = rng.hypergeometric(wrong_flips, n_flips - wrong_flips, reviewed, 2000)
    else:
        share = limit(3) + 1e-9
        found = rng.binomial(reviewed, share, 2000)
    missed = sum(share > limit(int(count)) for count in found)
    assert 60 < missed <= stats.binom.ppf(0.999, 2000, 0.05)
    assert sum(share > 0.8 * limit(int(count)) for count in found) > 160


def test_finite_limit_is_exact_and_never_above_the_endless_one():
    for n_flips in (30, 100):
        for reviewed in (1, 10, 30):
            for wrong in (0, 1, 5):
                if wrong > reviewed:
                    continue
                limit = certificate.flip_error_limit(wrong, reviewed, n_flips=n_flips)
                plausible = [
                    w
                    for w in range(wrong, n_flips - reviewed + wrong + 1)
                    if stats.hypergeom.cdf(wrong, n_flips, w, reviewed) > 0.05
                ]
                assert limit == pytest.approx(max(plausible) / n_flips)
                assert limit <= certificate.flip_error_limit(wrong, reviewed) + 1e-12
    assert certificate.flip_error_limit(3, 50, n_flips=50) == pytest.approx(3 / 50)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.005, 0.5), st.floats(0.5, 0.999), st.integers(0, 5))
def test_reviews_needed_is_the_least_number(target, confidence, wrong):
    n = certificate.reviews_needed(target, confidence, wrong)
    assert certificate.flip_error_limit(wrong, n, confidence) <= target
    if n > wrong + 1:
        assert certificate.flip_error_limit(wrong, n - 1, confidence) > target


def test_reviews_needed_known_values():
    assert certificate.reviews_needed(0.05) == 59
    assert certificate.reviews_needed(0.01) == 299
    assert certificate.reviews_needed(0.05, n_flips=10) == 10  # one wrong flip of ten is above 5%
    assert certificate.reviews_needed(0.05, n_flips=40) < 59
    assert certificate.flip_error_limit(0, 0) == 1.0
    with pytest.raises(InputError, match=r"n_wrong: expected at most 0\.05 of 10 flips"):
        certificate.reviews_needed(0.05, n_wrong=1, n_flips=10)


def test_choose_delta_keeps_its_promise_over_2000_audits():
    rng = np.random.default_rng(0)
    deltas = np.linspace(0.1, 1.0, 19)
    n_flips, target = 4000, 0.1
    ratio = np.sort(rng.random(n_flips))
    wrong = rng.random(n_flips) < 0.35 * ratio**2  # riskier flips have larger ratios
    error = np.cumsum(wrong) / np.arange(1, n_flips + 1)
    truth = {d: error[np.searchsorted(ratio, d) - 1] for d in deltas}
    assert truth[deltas[-1]] > target  # the guarantee is put to the test
    broken = chosen = 0
    for _ in range(2000):
        sample = rng.choice(n_flips, 300, replace=False)
        delta = certificate.choose_delta(ratio[sample], wrong[sample], deltas, target).delta
        chosen += delta is not None
        broken += delta is not None and truth[delta] > target
    assert chosen > 1500  # one wrong flip among the first 30 reviews ends it early
    assert broken <= stats.binom.ppf(0.999, 2000, 0.05)


def test_choose_delta_keeps_its_promise_over_2000_audits_where_it_is_hardest():
    # Up to 0.5 all is well; at 1.0 the flip error is just above the target: passing is an error.
    rng = np.random.default_rng(0)
    n_flips, target = 20_000, 0.1
    ratio = np.arange(n_flips) / n_flips
    wrong = np.zeros(n_flips, dtype=bool)
    wrong[rng.choice(np.arange(n_flips // 2, n_flips), 2001, replace=False)] = True
    broken = 0
    for _ in range(2000):
        sample = rng.choice(n_flips, 300, replace=False)
        choice = certificate.choose_delta(ratio[sample], wrong[sample], [0.5, 1.0], target)
        broken += choice.delta == 1.0
    assert 40 < broken <= stats.binom.ppf(0.999, 2000, 0.05)


def test_choose_delta_stops_at_the_first_failure():
    ratio = np.linspace(0.0, 0.99, 400)
    wrong = (ratio > 0.3) & (ratio < 0.5)
    result = certificate.choose_delta(ratio, wrong, [0.9, 0.1, 0.25, 0.5, 0.99], target=0.2)
    assert result.delta == 0.25
    assert result.deltas.tolist() == [0.1, 0.25, 0.5, 0.9, 0.99]
    assert result.passed.tolist() == [True, True, False, False, False]
    assert result.n_reviewed.tolist() == [int((ratio < d).sum()) for d in result.deltas]
    assert result.n_wrong.tolist() == [int(wrong[ratio < d].sum()) for d in result.deltas]


def test_choose_delta_skips_thresholds_that_no_verdict_could_pass():
    ratio = np.linspace(0.2, 0.99, 200)
    result = certificate.choose_delta(ratio, np.zeros(200, bool), [0.1, 0.3, 0.6, 0.9])
    assert result.passed.tolist() == [False, False, True, True]
    assert result.delta == 0.9
    few = certificate.choose_delta(ratio[:10], np.zeros(10, bool), [0.5])
    assert few.delta is None


# --- diagnostics ------------------------------------------------------------------------------


def test_reliability_equals_plain_loops():
    rng = np.random.default_rng(0)
    f, y = rng.dirichlet(np.ones(3), 500), rng.integers(0, 3, 500)
    result = certificate.reliability(y, f, bins=10)
    total = used = 0
    for b in range(10):
        rows = [i for i in range(500) if b / 10 <= f[i].max() < (b + 1) / 10]
        if not rows:
            continue
        assert result.count[used] == len(rows)
        assert result.confidence[used] == pytest.approx(np.mean([f[i].max() for i in rows]))
        agree = np.mean([f[i].argmax() == y[i] for i in rows])
        assert result.frequency[used] == pytest.approx(agree)
        total += len(rows) * abs(result.confidence[used] - agree)
        used += 1
    assert used == len(result.count)
    assert result.error == pytest.approx(total / 500)


def test_reliability_tells_calibrated_from_overconfident():
    rng = np.random.default_rng(1)
    f = rng.dirichlet(np.ones(4), 20_000)
    y = (rng.random(20_000)[:, None] >= np.cumsum(f, axis=1)[:, :-1]).sum(axis=1)
    sharp = f**3 / (f**3).sum(axis=1, keepdims=True)
    assert certificate.reliability(y, f).error < 0.02
    assert certificate.reliability(y, sharp).error > 0.1
    assert certificate.reliability([0], [[1.0, 0.0]]).confidence.tolist() == [1.0]


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(2, 5), st.floats(0, 0.7))
def test_negative_mass_is_zero_for_the_right_T_and_its_implied_error_is_honest(seed, k, noise):
    rng = np.random.default_rng(seed)
    T, eta = random_T(rng, k, noise), rng.dirichlet(np.ones(k), 500)
    clean = certificate.negative_mass(np.clip(eta @ T, 0, 1), T)
    assert clean.mass.max() < 1e-10
    f = rng.dirichlet(np.full(k, 0.5), 500)
    off = np.abs(f - eta @ T).max(axis=1)
    assert (certificate.negative_mass(f, T).implied_error <= off + 1e-12).all()


def test_negative_mass_rejects_a_wrong_T():
    rng = np.random.default_rng(0)
    eta = rng.dirichlet(np.full(3, 0.2), 2000)
    true_T = random_T(rng, 3, 0.2)
    wrong_T = np.full((3, 3), 0.25) + 0.25 * np.eye(3)
    result = certificate.negative_mass(eta @ true_T, wrong_T)
    assert np.mean(result.implied_error > 0.02) > 0.3


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_flip_sensitivity_counts(seed):
    rng = np.random.default_rng(seed)
    ratio = rng.choice(np.linspace(0, 1, 21), 100)
    deltas = rng.choice(np.linspace(0.05, 1, 20), 7)
    expected = [int(sum(r < d for r in ratio)) for d in deltas]
    assert certificate.flip_sensitivity(ratio, deltas).tolist() == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: certificate.certified_radius([[0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]),
            "T: expected an invertible matrix, got a singular one",
        ),
        (lambda: certificate.negative_mass([[0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]), "T: expected"),
        (lambda: certificate.certified_radius([[0.5, 0.5]], np.eye(3)), r"T: expected shape \(2"),
        (lambda: certificate.flip_error_limit(3, 2), "n_wrong: expected at most n_reviewed"),
        (lambda: certificate.flip_error_limit(-1, 2), "n_wrong: expected a whole number >= 0"),
        (lambda: certificate.flip_error_limit(1.5, 2), "n_wrong: expected a whole number"),
        (lambda: certificate.flip_error_limit(0, 9, 1.0), "confidence: expected a number > 0 and"),
        (lambda: certificate.flip_error_limit(0, 9, n_flips=5), "n_flips: expected a whole number"),
        (lambda: certificate.reviews_needed(0.0), "target: expected a number > 0 and < 1, got 0"),
        (lambda: certificate.choose_delta([0.1], [True], [0.0]), r"deltas: .* in \(0, 1\], got 0"),
        (lambda: certificate.choose_delta([0.1], [True], [1.2]), r"deltas: expected values in"),
        (lambda: certificate.choose_delta([0.1], [True], []), "deltas: expected at least one"),
        (lambda: certificate.choose_delta([0.1], [1, 0], [0.5]), "wrong: expected one verdict"),
        (lambda: certificate.choose_delta([0.1], [0.5], [0.5]), "wrong: expected True or False"),
        (lambda: certificate.flip_sensitivity([np.nan], [0.5]), "ratio: expected finite"),
        (lambda: certificate.flip_sensitivity(["a"], [0.5]), "ratio: expected numbers"),
        (lambda: certificate.choose_delta([0.1], [0], ["a"]), "deltas: expected numbers"),
        (lambda: certificate.reliability([0], [[0.5, 0.5]], bins=0), "bins: expected a whole"),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(InputError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


@given(st.integers(1, 400), st.data())
@settings(max_examples=100, deadline=None)
def test_the_finite_distribution_is_scipys(total, data):
    marked, drawn = (data.draw(st.integers(0, total)) for _ in range(2))
    x = data.draw(st.integers(0, drawn))
    ours = certificate._hypergeometric_cdf(x, total, marked, drawn)
    assert ours == pytest.approx(stats.hypergeom.cdf(x, total, marked, drawn), abs=1e-10)
