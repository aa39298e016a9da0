"""LRT-Correction against a naive loop; every path of the kernel gives the same bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from adacorr.core import kernel
from adacorr.core.lrt import ThresholdRule, likelihood_ratio
from adacorr.core.validation import InputError, RowError


def naive(labels, f, delta):
    """Procedure 1 by the letter, in float64."""
    suggested, ratio, flipped = [], [], []
    for y, row in zip(labels, f.astype(np.float64), strict=True):
        m = 0
        for j in range(1, len(row)):
            if row[j] > row[m]:
                m = j
        r = row[y] / row[m]
        threshold = delta if np.ndim(delta) == 0 else delta[m][y]
        suggested.append(m)
        ratio.append(r)
        flipped.append(r < threshold and m != y)
    return np.array(suggested), np.array(ratio), np.array(flipped)


@st.composite
def problems(draw):
    """Rows on the simplex with many ties and zeros, of any float type."""
    n = draw(st.one_of(st.integers(1, 30), st.sampled_from([64, 65, 150])))
    k = draw(st.sampled_from([2, 10, 15, 16, 17]))  # numba compiles once for each below 16
    weights = draw(hnp.arrays(np.int64, (n, k), elements=st.integers(0, 4)))
    weights[np.arange(n), draw(hnp.arrays(np.int64, n, elements=st.integers(0, k - 1)))] += 1
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    f = (weights / weights.sum(axis=1, keepdims=True)).astype(dtype)
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, k - 1)))
    return labels, f


thresholds = st.one_of(
    st.floats(1e-6, 1, allow_nan=False), st.sampled_from([1.0, 0.5, 1 / 3, 0.25, 1 / 7])
)


def force(monkeypatch, path):
    if path == "numba":
        monkeypatch.setattr(kernel, "_NUMBA_COLD", 0)
        monkeypatch.setattr(kernel, "_NUMBA_WARM", 0)
        monkeypatch.setattr(kernel, "_PARALLEL", 0)
    elif path == "pieces":
        monkeypatch.setattr(kernel, "_NUMBA_COLD", 1 << 60)
        monkeypatch.setattr(kernel, "_NUMBA_WARM", 1 << 60)
        monkeypatch.setattr(kernel, "_PIECE", 16)
        monkeypatch.setattr(kernel, "_PARALLEL", 0)


@pytest.fixture(params=["numpy", "pieces", "numba"])
def path(request, monkeypatch):
    force(monkeypatch, request.param)
    return request.param


@settings(max_examples=60, deadline=None)
@given(problem=problems(), delta=thresholds)
def test_equals_the_naive_loop(problem, delta):
    labels, f = problem
    expected = naive(labels, f, delta)
    before = labels.copy(), f.copy()
    for name in ("numpy", "pieces", "numba"):
        with pytest.MonkeyPatch.context() as patch:
            force(patch, name)
            decision = ThresholdRule.create(delta, f.shape[1]).decide(labels, f)
        for ours, theirs in zip(
            (decision.suggested, decision.ratio, decision.flipped), expected, strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(labels, before[0])
    np.testing.assert_array_equal(f, before[1])


@settings(max_examples=40, deadline=None)
@given(problem=problems(), data=st.data())
def test_pair_thresholds_equal_the_naive_loop(problem, data):
    labels, f = problem
    k = f.shape[1]
    delta = data.draw(hnp.arrays(np.float64, (k, k), elements=st.floats(0, 1)))
    expected = naive(labels, f, delta)
    for name in ("numpy", "numba"):
        with pytest.MonkeyPatch.context() as patch:
            force(patch, name)
            decision = ThresholdRule.create(delta, k).decide(labels, f)
        np.testing.assert_array_equal(decision.flipped, expected[2])


@settings(max_examples=60, deadline=None)
@given(problem=problems(), delta=thresholds)
def test_idempotent_and_only_to_the_argmax(problem, delta):
    labels, f = problem
    rule = ThresholdRule.create(delta, f.shape[1])
    once = rule.decide(labels, f)
    new = np.where(once.flipped, once.suggested, labels)
    assert not rule.decide(new, f).flipped.any()
    assert (f[once.flipped, new[once.flipped]] == f.max(axis=1)[once.flipped]).all()


@settings(max_examples=60, deadline=None)
@given(problem=problems(), deltas=st.tuples(thresholds, thresholds))
def test_monotone_in_delta(problem, deltas):
    labels, f = problem
    low, high = (
        ThresholdRule.create(d, f.shape[1]).decide(labels, f).flipped for d in sorted(deltas)
    )
    assert (low <= high).all()


def test_equals_the_float64_result(path):
    rng = np.random.default_rng(0)
    f = rng.dirichlet(np.ones(7), 500).astype(np.float32)
    labels = rng.integers(0, 7, 500)
    rule = ThresholdRule.create(0.7, 7)
    single, double = rule.decide(labels, f), rule.decide(labels, f.astype(np.float64))
    np.testing.assert_array_equal(single.ratio, double.ratio)
    np.testing.assert_array_equal(single.flipped, double.flipped)


@pytest.mark.parametrize("k", [2, 3, 4, 5, 7, 10])
def test_at_the_edge_of_delta(path, k):
    """A ratio equal to delta keeps the label; the next float above flips it."""
    f = np.full((1, k), 1.0)
    f[0, 0] = k
    f /= f.sum()
    label, edge = np.array([1]), f[0, 1] / f[0, 0]
    assert not ThresholdRule.create(edge, k).decide(label, f).flipped[0]
    assert ThresholdRule.create(np.nextafter(edge, 1), k).decide(label, f).flipped[0]


def test_ties_keep_the_label_and_suggest_the_first(path):
    f = np.array([[0.25, 0.25, 0.25, 0.25], [0.1, 0.4, 0.1, 0.4]])
    decision = ThresholdRule.create(1.0, 4).decide(np.array([3, 3]), f)
    assert decision.suggested.tolist() == [0, 1]
    assert not decision.flipped.any()


def test_uniform_rows_of_many_classes(path):
    f = np.full((3, 5000), 1 / 5000, np.float32)
    f[1, 4999] += 1e-4
    suggested, ratio = likelihood_ratio(np.array([1, 2, 3]), f)
    assert suggested.tolist() == [0, 4999, 0]
    assert ratio[0] == 1
    assert ratio[1] == np.float64(f[1, 0]) / np.float64(f[1, 4999])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("value", "got"), [(np.nan, "nan"), (np.inf, "inf"), (-0.1, "-0.1|-0.09")])
def test_a_bad_entry_is_named(path, dtype, value, got):
    f = np.full((64, 4), 0.25, dtype)
    f[41, 2] = value
    with pytest.raises(
        RowError, match=f"expected finite probabilities >= 0, got ({got})"
    ) as caught:
        likelihood_ratio(np.zeros(64, np.int64), f)
    assert (caught.value.row, caught.value.column) == (41, 2)


def test_rows_off_the_simplex_are_named(path):
    f = np.full((50, 2), 0.5, np.float32)
    f[33] = 0.45
    with pytest.raises(RowError, match=r"a sum of 1 \(within 0.01\), got 0.9 in row 33"):
        likelihood_ratio(np.zeros(50, np.int64), f)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_near_the_tolerance_are_decided_exactly(path, dtype):
    """Sums in the doubtful band get the exact check and still the right answer."""
    f = np.array([[0.6955, 0.3], [0.2, 0.8], [0.7045, 0.305]], dtype)
    decision = ThresholdRule.create(0.9, 2).decide(np.array([1, 1, 1]), f)
    np.testing.assert_array_equal(decision.flipped, [True, False, True])
    np.testing.assert_array_equal(decision.ratio, naive([1, 1, 1], f, 0.9)[1])


def test_negative_zero_is_a_probability(path):
    f = np.array([[1.0, -0.0], [0.5, 0.5]])
    assert ThresholdRule.create(0.5, 2).decide(np.array([1, 1]), f).flipped.tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_outside_is_named(path, label):
    f = np.full((20, 3), 1 / 3)
    labels = np.zeros(20, np.int64)
    labels[7] = label
    with pytest.raises(RowError, match=rf"labels: expected integers in \[0, 3\), got {label}"):
        likelihood_ratio(labels, f)


def test_memory_maps_and_strided_arrays(path, tmp_path):
    rng = np.random.default_rng(1)
    f = rng.dirichlet(np.ones(6), 40)
    labels = rng.integers(0, 3, 40)
    np.save(tmp_path / "f.npy", f)
    mapped = np.load(tmp_path / "f.npy", mmap_mode="r")
    strided = np.asfortranarray(f)
    expected = likelihood_ratio(labels, f)
    for other in (mapped, strided, f[::-1][::-1]):
        for ours, theirs in zip(likelihood_ratio(labels, other), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("delta", [0, -0.1, 1.5, np.nan, "much", [0.5, 0.5]])
def test_impossible_thresholds(delta):
    with pytest.raises(InputError, match="delta: expected"):
        ThresholdRule.create(delta, 3)


def test_works_where_compiled_code_cannot_be_kept(monkeypatch):
    """A read-only install has no place for numba's cache."""
    import numba

    real = numba.njit

    def njit(signature, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(signature, **options)

    monkeypatch.setattr(numba, "njit", njit)
    compiled = kernel._numba_kernel.__wrapped__(True, 2)
    monkeypatch.setattr(kernel, "_numba_kernel", lambda single, few: compiled)
    f = np.array([[0.8, 0.2], [0.3, 0.7]], np.float32)
    out = np.empty(2, np.int64), np.empty(2), np.empty(2, np.bool_)
    assert kernel._call_numba(np.array([1, 1]), f, np.ones((1, 1)), *out) == 0
    assert out[0].tolist() == [0, 1]
