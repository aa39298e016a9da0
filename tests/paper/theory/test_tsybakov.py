import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adacorr.core.validation import InputError
from adacorr.paper.theory import tsybakov


def test_known_constants_of_the_mixture():
    # The paper: C 0.58, lambda 1.27 for 10-D Gaussians with means 0 and 1.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 20_000)
    x = rng.standard_normal((20_000, 10)) + y[:, None]
    eta = 1 / (1 + np.exp(5 - x.sum(axis=1)))
    fit = tsybakov.fit_tsybakov(tsybakov.binary_margin(eta), tsybakov.BINARY_GRID)
    assert abs(fit.C - 0.58) < 0.03
    assert fit.lam == pytest.approx(1.27, abs=0.05)
    assert 0.90 < fit.r2 < 0.96


@settings(max_examples=30, deadline=None)
@given(st.floats(0.3, 3), st.floats(0.3, 1))
def test_recovers_a_power_law(lam, C):
    n = 200_000
    share = (np.arange(n) + 0.5) / n
    margins = np.minimum((share / C) ** (1 / lam), 1.0)  # P[margin <= t] = C t^lam below t = 1
    grid = np.linspace(0.1, 0.9, 40)
    fit = tsybakov.fit_tsybakov(margins, grid)
    assert fit.lam == pytest.approx(lam, rel=0.02)
    assert abs(fit.C / C - 1) < 0.02
    assert fit.r2 > 0.999
    assert fit.envelope == pytest.approx(C, rel=0.03)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(50, 500))
def test_line_agrees_with_scipy_and_envelope_is_the_least_one(seed, n):
    from scipy.stats import linregress

    margins = np.random.default_rng(seed).beta(0.8, 1.5, n)
    fit = tsybakov.fit_tsybakov(margins)
    naive = np.array([np.mean(margins <= t) for t in fit.grid])
    assert np.array_equal(fit.p, naive)
    used = naive > 0
    line = linregress(np.log(fit.grid[used]), np.log(naive[used]))
    assert fit.lam == pytest.approx(line.slope)
    assert np.log(fit.C) == pytest.approx(line.intercept, abs=1e-9)
    assert fit.r2 == pytest.approx(line.rvalue**2)
    assert (fit.p <= fit.envelope * fit.grid**fit.lam * (1 + 1e-12)).all()
    assert (fit.p > 0.999 * fit.envelope * fit.grid**fit.lam).any()
    assert fit.envelope >= fit.C * (1 - 1e-12)  # no line through the points lies above them all


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.3, 2.5), st.floats(0.1, 1))
def test_envelope_constant_holds_at_every_t(seed, lam, t0):
    margins = np.random.default_rng(seed).random(300)
    C = tsybakov.envelope_constant(margins, lam, t0)
    t = np.concatenate([margins, np.linspace(1e-9, 1, 500)])
    t = t[t <= t0]
    share = (margins[None, :] <= t[:, None]).mean(axis=1)
    assert (share <= C * t**lam * (1 + 1e-12)).all()
    assert (share >= 0.999 * C * t**lam).any()


def test_envelope_constant_without_margins_in_reach_and_with_ties():
    assert tsybakov.envelope_constant(np.full(30, 0.4), 1.0, t0=0.3) == 0
    assert tsybakov.envelope_constant(np.zeros(30), 1.0) == np.inf


def test_bootstrap_agrees_with_resampling_the_margins():
    rng = np.random.default_rng(1)
    margins = rng.beta(1, 2, 1000)
    interval = tsybakov.bootstrap_tsybakov(margins, rng=0, n_resamples=4000)
    plain = [tsybakov.fit_tsybakov(rng.choice(margins, 1000)) for _ in range(400)]
    for name in ("C", "lam", "envelope"):
        expected = np.quantile([getattr(fit, name) for fit in plain], [0.025, 0.975])
        width = expected[1] - expected[0]
        assert np.allclose(getattr(interval, name), expected, atol=0.25 * width), name


def test_bootstrap_is_a_function_of_its_seed_and_covers_the_estimate():
    margins = np.random.default_rng(1).random(2000)
    first = tsybakov.bootstrap_tsybakov(margins, rng=3)
    assert first == tsybakov.bootstrap_tsybakov(margins, rng=3)
    assert first != tsybakov.bootstrap_tsybakov(margins, rng=4)
    fit = tsybakov.fit_tsybakov(margins)
    assert first.C[0] < fit.C < first.C[1]
    assert first.as_dict()["lambda"][0] < fit.as_dict()["lambda"] < first.as_dict()["lambda"][1]


def test_margins_equal_plain_loops():
    eta = np.random.default_rng(0).dirichlet(np.ones(5), 200).astype(np.float32)
    naive = [sorted(row)[-1] - sorted(row)[-2] for row in eta.astype(np.float64)]
    assert np.allclose(tsybakov.multiclass_margin(eta), naive)
    p = eta[:, :2] / eta[:, :2].sum(axis=1, keepdims=True)
    assert np.allclose(tsybakov.binary_margin(p), tsybakov.binary_margin(p[:, 1]), atol=1e-6)
    assert np.allclose(2 * tsybakov.binary_margin(p), tsybakov.multiclass_margin(p), atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tsybakov.fit_tsybakov([0.1] * 5), "at least 20 samples to fit, got 5"),
        (lambda: tsybakov.fit_tsybakov(np.full(50, 0.95)), "too few samples near the decision"),
        (lambda: tsybakov.fit_tsybakov(np.zeros(50)), "got lambda = 0"),
        (lambda: tsybakov.fit_tsybakov(["a"] * 50), "margins: expected numbers"),
        (lambda: tsybakov.fit_tsybakov(np.full(50, 1.5)), r"margins: expected values in \[0, 1\]"),
        (lambda: tsybakov.fit_tsybakov(np.full((50, 2), 0.5)), r"margins: expected shape \(N,\)"),
        (lambda: tsybakov.fit_tsybakov(np.full(50, np.nan)), "margins: expected values"),
        (lambda: tsybakov.fit_tsybakov(np.full(50, 0.1), [0.0, 0.5, 0.6]), "grid: expected"),
        (
            lambda: tsybakov.envelope_constant(np.full(50, 0.1), 0.0),
            "lambda: expected a number > 0",
        ),
        (lambda: tsybakov.binary_margin([[0.2, 0.3, 0.5]]), "expected two classes, got 3"),
        (lambda: tsybakov.binary_margin([1.2]), "eta: expected finite probabilities >= 0"),
        (
            lambda: tsybakov.bootstrap_tsybakov(np.linspace(0, 1, 50), 0, confidence=1.0),
            "confidence: expected a number > 0 and < 1, got 1",
        ),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(InputError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("n", [200, 5000])
def test_p_value_is_scipys(n):
    margins = np.random.default_rng(n).beta(1.3, 1.0, n)
    fit = tsybakov.fit_tsybakov(margins)
    kept = fit.p > 0
    line = stats.linregress(np.log(fit.grid[kept]), np.log(fit.p[kept]))
    assert fit.p_value == pytest.approx(line.pvalue, rel=1e-6)
    assert fit.as_dict()["p_value"] == fit.p_value
