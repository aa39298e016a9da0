from __future__ import annotations

import numpy as np

from adacorr.data.dataset import Dataset


def test_take_keeps_every_part_in_step() -> None:
    data = Dataset(
        "toy",
        np.arange(8, dtype=np.float32).reshape(4, 2),
        np.array([0, 1, 0, 1]),
        ("a", "b"),
        truth=np.array([1, 1, 0, 0]),
        ids=np.array(["p", "q", "r", "s"]),
    )
    part = data.take(np.array([3, 1]))
    assert np.asarray(part.features).tolist() == [[6, 7], [2, 3]]
    assert part.labels.tolist() == [1, 1]
    assert part.truth is not None
    assert part.ids is not None
    assert part.truth.tolist() == [0, 1]
    assert part.ids.tolist() == ["s", "q"]
    assert (len(part), part.n_classes, part.input_shape) == (2, 2, (2,))


def test_take_of_any_sequence_is_lazy() -> None:
    seen = []

    class Slow(list):
        def __getitem__(self, i):
            seen.append(i)
            return super().__getitem__(i)

    data = Dataset("toy", Slow(np.eye(4)), np.array([0, 1, 0, 1]), ("a", "b"))
    part = data.take(np.array([2, 0])).take(np.array([0]))
    assert seen == []
    assert part.features[0].tolist() == [0, 0, 1, 0]
    assert seen == [2]
    assert part.ids is not None
    assert part.ids.tolist() == [2]
