"""Each loss equals a plain Python loop over the samples, written from the formula."""

import math

import pytest
import torch
from torch import Tensor

from adacorr.core import noise
from adacorr.train.methods import abstention as dac
from adacorr.train.methods import mentornet as pd
from adacorr.train.methods.adacorr import falling_delta, lrt_correct, retroactive_loss
from adacorr.train.methods.backward import backward_loss
from adacorr.train.methods.base import Step
from adacorr.train.methods.coteaching import coteaching_loss
from adacorr.train.methods.decoupling import decoupling_loss
from adacorr.train.methods.forward import forward_loss
from adacorr.train.methods.posterior import (
    label_posterior,
    source_certainty,
    source_weights,
    trusted,
)
from adacorr.train.methods.standard import Standard

B, K = 23, 4


def batch(seed: int, outputs: int = K) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(B, outputs, generator=g, dtype=torch.float64)
    return logits, torch.randint(0, K, (B,), generator=g)


def softmax(row: list[float]) -> list[float]:
    e = [math.exp(z) for z in row]
    return [x / sum(e) for x in e]


def cross_entropy(row: list[float], label: int) -> float:
    return -math.log(softmax(row)[label])


def close(got: Tensor, expected: float) -> None:
    assert got.ndim == 0
    assert got.item() == pytest.approx(expected, rel=1e-10)


def test_standard():
    z, y = batch(0)
    step = Step((z,), y, torch.arange(B), 1, torch.Generator())
    expected = sum(cross_entropy(r, c) for r, c in zip(z.tolist(), y.tolist(), strict=True)) / B
    close(Standard().loss(step), expected)


def test_forward():
    z, y = batch(1)
    T = noise.uniform(K, 0.3)
    total = 0.0
    for row, label in zip(z.tolist(), y.tolist(), strict=True):
        p = softmax(row)
        total -= math.log(sum(p[i] * T[i, label] for i in range(K)))
    close(forward_loss(z, y, torch.from_numpy(T)), total / B)


def test_forward_is_finite_where_T_rules_a_label_out():
    T = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert forward_loss(torch.zeros(1, 2), torch.tensor([1]), T).isfinite()


def test_backward():
    z, y = batch(2)
    T = noise.pair(K, 0.3)
    inverse = torch.linalg.inv(torch.from_numpy(T))
    total = 0.0
    for row, label in zip(z.tolist(), y.tolist(), strict=True):
        p = softmax(row)
        total += sum(inverse[label, j].item() * -math.log(p[j]) for j in range(K))
    close(backward_loss(z, y, inverse), total / B)


def test_backward_is_unbiased():
    """Its mean over the given label, drawn from T, is the clean cross-entropy."""
    z, y = batch(3)
    T = torch.from_numpy(noise.uniform(K, 0.4))
    inverse = torch.linalg.inv(T)
    for row, true in zip(z, y.tolist(), strict=True):
        mean = sum(
            T[true, j].item() * backward_loss(row[None], torch.tensor([j]), inverse).item()
            for j in range(K)
        )
        assert mean == pytest.approx(cross_entropy(row.tolist(), true), rel=1e-9)


@pytest.mark.parametrize(("believed", "bounded"), [(0.2, True), (0.3, True), (0.4, False)])
def test_backward_has_no_floor_where_T_says_too_much_noise(believed, bounded):
    """Mean loss of a net ever surer of the truth, under noise 0.3 and a T for another rate."""
    T = torch.from_numpy(noise.uniform(K, 0.3))
    inverse = torch.linalg.inv(torch.from_numpy(noise.uniform(K, believed)))
    means = []
    for size in (10.0, 100.0):
        row = torch.zeros(1, K, dtype=torch.float64)
        row[0, 0] = size
        losses = [backward_loss(row, torch.tensor([j]), inverse).item() for j in range(K)]
        means.append(sum(T[0, j].item() * losses[j] for j in range(K)))
    assert (min(means) > -1e-9) == bounded
    assert bounded or means[1] < 9 * means[0] < 0


@pytest.mark.parametrize("least", [0.1, 1.0])
def test_decoupling(least):
    (a, y), (b, _) = batch(4), batch(5)
    total, differ = 0.0, 0
    for ra, rb, label in zip(a.tolist(), b.tolist(), y.tolist(), strict=True):
        if ra.index(max(ra)) != rb.index(max(rb)):
            differ += 1
            total += cross_entropy(ra, label) + cross_entropy(rb, label)
    assert 0 < differ < B
    close(decoupling_loss(a, b, y, least), total / max(least * B, differ))


def test_decoupling_without_disagreement_is_zero():
    z, y = batch(4)
    assert decoupling_loss(z, z.clone(), y, 0.1).item() == 0


@pytest.mark.parametrize("keep", [1.0, 0.6, 0.01])
def test_coteaching(keep):
    (a, y), (b, _) = batch(6), batch(7)
    la = [cross_entropy(r, c) for r, c in zip(a.tolist(), y.tolist(), strict=True)]
    lb = [cross_entropy(r, c) for r, c in zip(b.tolist(), y.tolist(), strict=True)]
    n = max(1, int(keep * B))
    easy_a = sorted(range(B), key=la.__getitem__)[:n]
    easy_b = sorted(range(B), key=lb.__getitem__)[:n]
    expected = sum(la[i] for i in easy_b) / n + sum(lb[i] for i in easy_a) / n
    close(coteaching_loss(a, b, y, keep), expected)


@pytest.mark.parametrize("progress", [0.0, 0.17, 0.18, 0.5, 0.89, 0.9, 1.0])
def test_mentornet_curriculum(progress):
    losses = torch.linspace(0, 3, 17, dtype=torch.float64)
    got = pd.curriculum(losses, torch.tensor(1.2), progress).tolist()
    for loss, weight in zip(losses.tolist(), got, strict=True):
        if progress < 0.18:
            expected = 1.0
        elif progress < 0.9:
            expected = 1.0 if loss <= 1.2 else 0.0
        else:
            expected = min(max(1 - (loss - 1.2), 0.0), 1.0)
        assert weight == pytest.approx(expected, abs=1e-6)


def test_abstention_terms():
    z, y = batch(8, outputs=K + 1)
    risk, price = dac.abstention_terms(z, y)
    for i, (row, label) in enumerate(zip(z.tolist(), y.tolist(), strict=True)):
        p = softmax(row)
        stay = 1 - p[K]
        assert risk[i].item() == pytest.approx(stay * -math.log(p[label] / stay), rel=1e-9)
        assert price[i].item() == pytest.approx(-math.log(stay), rel=1e-9)


def test_abstention_drops_what_it_abstains_on_and_would_call_another_class():
    z, y = batch(12, outputs=K + 1)
    z[:, K] += 1.0
    expected = []
    for row, label in zip(z.tolist(), y.tolist(), strict=True):
        best = max(range(K), key=row.__getitem__)
        expected.append(row[K] > row[best] and best != label)
    assert dac.dropped(z, y).tolist() == expected
    assert 0 < sum(expected) < (z.argmax(dim=1) == K).sum()


def test_retroactive_loss():
    z, _ = batch(9)
    f_r = batch(10)[0].softmax(dim=1)
    total = 0.0
    for row, target in zip(z.tolist(), f_r.tolist(), strict=True):
        p = softmax(row)
        total -= sum(target[c] * math.log(p[c]) for c in range(K))
    close(retroactive_loss(z.log_softmax(dim=1), f_r), total / B)


@pytest.mark.parametrize("delta", [0.2, 0.9, 1.0])
def test_lrt_correct(delta):
    z, y = batch(11)
    f = z.softmax(dim=1)
    f[0] = 1 / K  # a tie: the label stays
    before = y.clone()
    got = lrt_correct(y, f, delta).tolist()
    for row, label, new in zip(f.tolist(), y.tolist(), got, strict=True):
        best = row.index(max(row))
        assert new == (best if row[label] / row[best] < delta else label)
    assert torch.equal(y, before)


def test_falling_delta_has_the_released_ends():
    assert falling_delta(1, epochs=180) == pytest.approx(1 / 1.22)
    assert falling_delta(150, epochs=180) == pytest.approx(1 / 4.2)
    assert falling_delta(25, epochs=30) == pytest.approx(1 / 4.2)  # the same fall in a short run


def test_label_posterior():
    z, y = batch(12)
    eta, T = z.softmax(dim=1), noise.uniform(K, 0.4)
    got = label_posterior(eta, torch.from_numpy(T), y).tolist()
    for row, label, new in zip(eta.tolist(), y.tolist(), got, strict=True):
        joint = [row[j] * T[j, label] for j in range(K)]
        assert new == pytest.approx([value / sum(joint) for value in joint])


def test_source_weights_are_even_under_uniform_noise_and_two_under_pair():
    even = source_weights(torch.from_numpy(noise.uniform(K, 0.3)))
    assert even.std(dim=0).max().item() == pytest.approx(0, abs=1e-12)
    pair = source_weights(torch.from_numpy(noise.pair(K, 0.4)))
    assert ((pair > 0).sum(dim=0) == 2).all()
    assert (pair[pair > 0] == 0.4).all()


def test_source_certainty_is_how_far_T_names_one_source():
    T = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.0, 0.7]])
    # of the wrong labels 0, 3/4 were class 2; 1: all class 0; 2: half and half
    assert source_certainty(T).tolist() == pytest.approx([0.5, 1.0, 0.0], abs=1e-6)
    assert source_certainty(torch.from_numpy(noise.uniform(2, 0.3))).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.99])
def test_trusted_leaves_out_the_lowest_ratios(rate):
    z, y = batch(14)
    f = z.softmax(dim=1)
    ratio = [row[label] / max(row) for row, label in zip(f.tolist(), y.tolist(), strict=True)]
    own = [row[label] for row, label in zip(f.tolist(), y.tolist(), strict=True)]
    ranked = sorted(range(B), key=lambda i: (ratio[i], own[i]))
    kept = trusted(f, y, rate)
    assert sorted(ranked[: int(rate * B)]) == (~kept).nonzero().flatten().tolist()
