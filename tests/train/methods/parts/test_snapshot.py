"""What is remembered comes back, also in part and after a break."""

import pytest
import torch

from adacorr.core.validation import InputError
from adacorr.train.methods.parts.snapshot import RollingMean, Snapshot

F = torch.rand(20, 6, generator=torch.Generator().manual_seed(0)).softmax(dim=1)
INDEX = torch.tensor([3, 0, 19])


def test_whole_rows_are_a_copy():
    snapshot, f = Snapshot(6, None), F.clone()
    assert not snapshot.taken
    snapshot.take(f)
    f.zero_()
    assert snapshot.taken
    assert torch.equal(snapshot.rows(INDEX), F[INDEX])


@pytest.mark.parametrize("top_k", [1, 2, 5])
def test_of_the_largest_the_rest_is_spread_evenly(top_k):
    snapshot = Snapshot(6, top_k)
    snapshot.take(F)
    again = Snapshot(6, top_k)
    again.load_state(snapshot.state())
    for found, row in zip(again.rows(INDEX), F[INDEX], strict=True):
        kept = row.argsort(descending=True)[:top_k]
        expected = torch.full((6,), float(1 - row[kept].sum()) / (6 - top_k))
        expected[kept] = row[kept]
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("top_k", [0, 6])
def test_a_part_that_is_none_is_refused(top_k):
    with pytest.raises(InputError, match=r"top_k: expected 1 to 5 \(of K classes\)"):
        Snapshot(6, top_k)


def test_the_rolling_mean_goes_on_after_a_break():
    parts = [torch.full((2, 2), float(i)) for i in range(6)]
    whole, broken = RollingMean(3), RollingMean(3)
    for i, part in enumerate(parts):
        expected = torch.stack(parts[max(0, i - 2) : i + 1]).mean(dim=0)
        torch.testing.assert_close(whole.add(part), expected)
        torch.testing.assert_close(broken.add(part), expected)
        state, broken = broken.state(), RollingMean(3)
        broken.load_state(state)
