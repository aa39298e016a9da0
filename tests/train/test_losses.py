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
from adacorr.train.methods.base import EpochEnd, Setting, Step
from adacorr.train.methods.coteaching import coteaching_loss
from adacorr.train.methods.decoupling import decoupling_loss
from adacorr.train.methods.dividemix import DivideMix, low_loss, mixed_loss, targets
from adacorr.train.methods.elrplus import ELRPlus, early_learning, renewed
from adacorr.train.methods.forward import forward_loss
from adacorr.train.methods.parts.mixup import Mix, soft_cross_entropy
from adacorr.train.methods.posterior import (
    label_posterior,
    source_certainty,
    source_weights,
    trusted,
)
from adacorr.train.methods.sop import SOP, fitted_loss, noise_term, residual
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
    step = Step((z,), y, torch.arange(B), 1, torch.Generator(), z, lambda i, x: x)
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


# -- methods that keep something of each sample ---------------------------------------------------


def clipped(row: list[float]) -> list[float]:
    return [min(max(p, 1e-4), 1 - 1e-4) for p in softmax(row)]


def test_elrplus_terms():
    z, _ = batch(20)
    t, _ = batch(21)
    t = 0.9 * t.softmax(dim=1)
    total = 0.0
    for row, target in zip(z.tolist(), t.tolist(), strict=True):
        p = clipped(row)
        total += math.log(1 - sum(a * b for a, b in zip(p, target, strict=True)))
    close(early_learning(z, t), total / B)
    new = renewed(t, z, 0.7)
    for row, target, got in zip(z.tolist(), t.tolist(), new.tolist(), strict=True):
        p = clipped(row)
        expected = [0.7 * a + 0.3 * b / sum(p) for a, b in zip(target, p, strict=True)]
        assert got == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_elrplus_over_three_steps(alpha):
    """The whole loss of both nets, the running targets included, by a loop over samples."""
    method = ELRPlus(mixup=alpha)
    first, y = batch(22)
    method.start(Setting(y, K, 3, torch.device("cpu")))
    method.load_state({"target": torch.zeros(2, B, K, dtype=torch.float64)})
    t = [[[0.0] * K for _ in range(B)] for _ in range(2)]
    weights = [1.5 * torch.eye(K, dtype=torch.float64), torch.eye(K, dtype=torch.float64)]
    for epoch in range(1, 4):
        logits = [(x @ w) * epoch for x, w in zip((first, first), weights, strict=True)]
        forward = lambda i, x, e=epoch: (x @ weights[i]) * e  # noqa: E731
        g = torch.Generator().manual_seed(epoch)
        step = Step(tuple(logits), y, torch.arange(B), epoch, g, first, forward)
        got = method.loss(step)
        mix = None
        if alpha:
            mix = Mix.draw(B, alpha, torch.Generator().manual_seed(epoch))
        for net in range(2):
            for i, row in enumerate(logits[net].tolist()):
                p = clipped(row)
                t[net][i] = [0.7 * a + 0.3 * b / sum(p) for a, b in zip(t[net][i], p, strict=True)]
        total = 0.0
        for net in range(2):
            for i in range(B):
                j, w = (int(mix.partner[i]), mix.weight) if mix else (i, 1.0)
                x = w * first[i] + (1 - w) * first[j]
                row = ((x @ weights[net]) * epoch).tolist()
                ce = w * cross_entropy(row, int(y[i])) + (1 - w) * cross_entropy(row, int(y[j]))
                other = t[1 - net]
                target = [w * a + (1 - w) * b for a, b in zip(other[i], other[j], strict=True)]
                inner = sum(a * b for a, b in zip(clipped(row), target, strict=True))
                total += (ce + 3 * math.log(1 - inner)) / B
        assert got.item() == pytest.approx(total, rel=1e-9)


def test_sop_terms_and_their_descent():
    """u and v after a step equal those from slopes by central differences."""
    z, y = batch(24)
    g = torch.Generator().manual_seed(3)
    u = 0.3 * torch.rand(B, 1, generator=g, dtype=torch.float64)
    v = 0.3 * torch.rand(B, K, generator=g, dtype=torch.float64)

    def loop(u: list, v: list) -> tuple[float, float]:
        fit = left = 0.0
        for i, row in enumerate(z.tolist()):
            p, label = softmax(row), int(y[i])
            s = [-min(v[i][c] ** 2, 1.0) for c in range(K)]
            s[label] = min(u[i][0] ** 2, 1.0)
            q = [max(a + b, 1e-4) for a, b in zip(p, s, strict=True)]
            fit -= math.log(q[label] / sum(q)) / B
            best = p.index(max(p))
            left += sum(((c == best) + s[c] - (c == label)) ** 2 for c in range(K)) / B
        return fit, left

    expected = loop(u.tolist(), v.tolist())
    s, p = noise_term(u, v, y), z.softmax(dim=1)
    close(fitted_loss(p, s, y).mean(), expected[0])
    close(residual(p, s, y).mean(), expected[1])

    method = SOP(lr_u=2.0, lr_v=3.0)
    method.start(Setting(y, K, 1, torch.device("cpu")))
    method.load_state({"u": u.clone(), "v": v.clone()})
    method.loss(Step((z,), y, torch.arange(B), 1, torch.Generator(), z, lambda i, x: x))
    h = 1e-6
    for i in range(0, B, 5):
        for which, rate, value in ((0, 2.0, u), (1, 3.0, v)):
            ends = []
            for sign in (1, -1):
                moved = [u.tolist(), v.tolist()]
                moved[which][i][0] += sign * h
                ends.append(loop(*moved)[which])
            slope = (ends[0] - ends[1]) / (2 * h)
            new = method.state()["uv"[which]][i, 0].item()
            assert new == pytest.approx(value[i, 0].item() - rate * slope, abs=1e-6)


@pytest.mark.parametrize(("epochs", "step"), [(120, 10.0), (30, 40.0)])
def test_sop_takes_larger_steps_in_a_shorter_run(epochs, step):
    z, y = torch.zeros(2, K), torch.tensor([0, 1])
    moved = []
    for method in (SOP(), SOP(lr_u=step, lr_v=step)):
        method.start(Setting(y, K, epochs, torch.device("cpu")))
        method.loss(Step((z,), y, torch.arange(2), 1, torch.Generator(), z, lambda i, x: x))
        moved.append(method.state())
    torch.testing.assert_close(moved[0], moved[1])


def test_dividemix_targets_and_loss():
    z, y = batch(25)
    own, both = batch(26)[0].softmax(dim=1), batch(27)[0].softmax(dim=1)
    clean = torch.rand(B, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    given = torch.nn.functional.one_hot(y, K).double()
    got = targets(given, clean, own, both)
    mean, taken, guessed, others = [0.0] * K, 0.0, 0.0, 0
    labelled = clean > 0.5
    for i, row in enumerate(z.tolist()):
        w, p = clean[i].item(), softmax(row)
        if w > 0.5:
            mixed = [w * given[i, c].item() + (1 - w) * own[i, c].item() for c in range(K)]
        else:
            mixed = both[i].tolist()
        t = [q * q / sum(r * r for r in mixed) for q in mixed]
        assert got[i].tolist() == pytest.approx(t, rel=1e-9)
        if w > 0.5:
            taken -= sum(a * math.log(b) for a, b in zip(t, p, strict=True))
        else:
            guessed += sum((a - b) ** 2 for a, b in zip(t, p, strict=True)) / K
            others += 1
        mean = [a + b / B for a, b in zip(mean, p, strict=True)]
    prior = sum(math.log(1 / K / m) / K for m in mean)
    expected = taken / (B - others) + 7 * guessed / others + prior
    close(mixed_loss(z, got, labelled, 7.0), expected)


@pytest.mark.parametrize("wrong", [0.1, 0.4])
def test_dividemix_divides_as_another_mixture_of_normals_does(wrong):
    from sklearn.mixture import GaussianMixture

    g = torch.Generator().manual_seed(5)
    high = torch.rand(2000, generator=g) < wrong
    losses = torch.where(high, 3.0, 0.3) + torch.where(high, 0.7, 0.2) * torch.randn(
        2000, generator=g
    )
    got = low_loss(losses)
    x = ((losses - losses.min()) / (losses.max() - losses.min()))[:, None].numpy()
    other = GaussianMixture(2, reg_covar=5e-4, max_iter=200, random_state=0).fit(x)
    low = other.predict_proba(x)[:, other.means_.argmin()]
    assert abs(got.numpy() - low).max() < 0.1
    assert ((got > 0.5).numpy() == (low > 0.5)).mean() > 0.995
    assert ((got > 0.5) != high).float().mean() > 0.97


def test_dividemix_learns_from_the_other_nets_division():
    """Net 0 finds the first half hard: it is net 1 that goes without those labels."""
    y = torch.arange(40) % K
    method = DivideMix(warmup=1, unlabelled=0.0)
    method.start(Setting(y, K, 10, torch.device("cpu")))
    right = 8.0 * torch.nn.functional.one_hot(y, K)
    hard = torch.where(torch.arange(40)[:, None] < 20, -right, right)
    x = torch.zeros(40, 1)
    step = Step((hard, right), y, torch.arange(40), 1, torch.Generator(), x, lambda i, x: x)
    method.loss(step)
    lines: list[str] = []
    method.end_epoch(EpochEnd(1, y, right, lambda: right, ({},), lines.append))
    clean = method.state()["clean"]
    assert (clean[0, :20] < 0.5).all()
    assert (clean[0, 20:] > 0.5).all()
    assert len(lines) == 1
    forwards: list[int] = []

    def forward(net: int, x: Tensor) -> Tensor:
        forwards.append(net)
        return right.clone().requires_grad_()

    step = Step((right, right), y, torch.arange(40), 2, torch.Generator(), x, forward)
    assert method.loss(step).isfinite()
    assert forwards == [0, 1]


def test_mixup_draws_weights_of_the_beta_distribution_at_least_a_half():
    from scipy import stats

    g = torch.Generator().manual_seed(6)
    for alpha in (0.4, 1.0, 4.0):
        weights = [Mix.draw(2, alpha, g).weight for _ in range(1500)]
        folded = lambda w, a=alpha: stats.beta.cdf(w, a, a) - stats.beta.cdf(1 - w, a, a)  # noqa: E731
        assert stats.kstest(weights, folded).pvalue > 0.01
    mix = Mix(torch.tensor([2, 0, 1]), 0.75)
    assert mix(torch.tensor([0.0, 4.0, 8.0])).tolist() == [2.0, 3.0, 7.0]


def test_soft_cross_entropy_of_a_label_is_cross_entropy():
    z, y = batch(28)
    one_hot = torch.nn.functional.one_hot(y, K).double()
    expected = sum(cross_entropy(r, c) for r, c in zip(z.tolist(), y.tolist(), strict=True)) / B
    close(soft_cross_entropy(z, one_hot), expected)
