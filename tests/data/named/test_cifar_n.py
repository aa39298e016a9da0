from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from adacorr.core.validation import InputError
from adacorr.data import load
from adacorr.data.named.cifar import CIFAR10_CLASSES

REAL = os.environ.get("ADACORR_DATA")


@pytest.fixture
def clean(root: Path, rng: np.random.Generator) -> np.ndarray:
    """CIFAR-10's binary folder with two images a batch; the training labels."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    labels = rng.integers(0, 10, 12)
    rows = np.hstack([labels[:, None], rng.integers(0, 256, (12, 3072))]).astype(np.uint8)
    for i, file in enumerate([f"data_batch_{j}.bin" for j in range(1, 6)] + ["test_batch.bin"]):
        (folder / file).write_bytes(rows[2 * i : 2 * i + 2].tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(CIFAR10_CLASSES))
    return labels[:10]


def human(clean: np.ndarray) -> dict[str, np.ndarray]:
    keys = ["aggre_label", "random_label1", "random_label2", "random_label3", "worse_label"]
    return {"clean_label": clean, **{key: (clean + i + 1) % 10 for i, key in enumerate(keys)}}


@pytest.mark.parametrize("form", ["pt", "npz"])
def test_human_labels_and_the_truth(root: Path, clean, form: str) -> None:
    (root / "cifar10n").mkdir()
    if form == "pt":
        import torch

        torch.save(human(clean), root / "cifar10n" / "CIFAR-10_human.pt")
    else:
        np.savez(root / "cifar10n" / "cifar10n_train.npz", **human(clean))
    for i, name in enumerate(["aggre", "random1", "random2", "random3", "worse"]):
        parts = load(f"cifar10n:{name}")
        assert parts.train.name == f"cifar10n:{name}"
        assert parts.train.labels.tolist() == ((clean + i + 1) % 10).tolist()
        assert parts.train.truth is not None
        assert parts.train.truth.tolist() == clean.tolist()
        assert parts.test is not None
        assert np.array_equal(parts.test.labels, parts.test.truth)


def test_bad_label_sets_are_named(root: Path, clean) -> None:
    with pytest.raises(InputError, match=r"cifar10n:aggre, cifar10n:random1.*got 'best'"):
        load("cifar10n:best")
    with pytest.raises(InputError, match="got ''"):
        load("cifar10n")
    with pytest.raises(InputError, match=r"expected CIFAR-10_human\.pt .*data get cifar10n"):
        load("cifar10n:worse")
    path = root / "cifar10n_train.npz"
    labels = human(clean)
    for change, message in (
        ({"worse_label": labels["worse_label"][:3]}, r"expected 10 integers in worse_label"),
        (
            {"worse_label": labels["worse_label"] + 5},
            r"expected labels in \[0, 10\) in worse_label",
        ),
        ({"clean_label": (clean + 1) % 10}, "expected rows in CIFAR-10's order"),
    ):
        np.savez(path, **{**labels, **change})
        with pytest.raises(InputError, match=message):
            load("cifar10n:worse")
    np.savez(path, aggre_label=labels["aggre_label"])
    with pytest.raises(InputError, match="expected the array worse_label, got aggre_label"):
        load("cifar10n:worse")


@pytest.mark.skipif(not REAL, reason="ADACORR_DATA is not set: no real files to read")
@pytest.mark.parametrize(("name", "rate"), [("aggre", 0.0903), ("random1", 0.1723)])
def test_the_real_noise_rates(monkeypatch: pytest.MonkeyPatch, name: str, rate: float) -> None:
    """Wei et al. 2022 give 9.03% and 17.23%."""
    from adacorr.data.named.cifar_n import load_cifar10n

    monkeypatch.setenv("ADACORR_DATA", str(REAL))
    train = load_cifar10n(name).train
    assert len(train) == 50_000
    assert abs((train.labels != train.truth).mean() - rate) < 5e-4
