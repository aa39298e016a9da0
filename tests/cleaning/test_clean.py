"""From data to clean labels and a run directory, with real encoders and models."""

import numpy as np
import pandas as pd
import pytest

import adacorr
from adacorr.core.validation import InputError
from adacorr.runs import Run


def average_precision(wrong, suspicion):
    from sklearn.metrics import average_precision_score

    return average_precision_score(wrong, suspicion)


def test_text(texts):
    made, given, truth = texts
    found = adacorr.clean(made, given)
    assert sorted(found.by_model) == ["bayes", "linear", "neighbours"]
    assert average_precision(given != truth, found.suspicion) > 0.95
    assert (found.labels == truth).mean() >= (given == truth).mean()
    assert set(found.suspects(20)) <= set(np.flatnonzero(given != truth))


def test_a_frame_of_values():
    rng = np.random.default_rng(0)
    truth = np.array(["low", "high"])[np.arange(400) % 2]
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=400) + 2 * (truth == "high"),
            "colour": np.where(rng.random(400) < 0.8, np.where(truth == "low", "red", "blue"), "x"),
            "gap": np.where(rng.random(400) < 0.5, np.nan, rng.normal(size=400)),
        }
    )
    given = truth.copy()
    wrong = rng.choice(400, 40, replace=False)
    given[wrong] = np.where(truth[wrong] == "low", "high", "low")
    found = adacorr.clean(frame.assign(label=given), "label")
    assert sorted(found.by_model) == ["boosting", "linear", "neighbours"]
    assert average_precision(given != truth, found.suspicion) > 0.6
    other = adacorr.clean(frame, given)
    np.testing.assert_array_equal(found.suspicion, other.suspicion)


def test_photos_and_the_run_directory(photos, tmp_path):
    (photos / "plain" / "00.png").write_bytes(b"broken")
    (photos / "striped" / "zz.png").write_bytes((photos / "plain" / "05.png").read_bytes())
    found = adacorr.clean(photos, run_dir=tmp_path / "run")
    assert found.issues.unreadable.sum() == 1
    assert found.issues.copies_across_classes.sum() == 2
    assert found.suspects(1)[0] in np.flatnonzero(found.issues.copies_across_classes)
    run = Run.open(tmp_path / "run")
    table = run.labels()
    assert table["id"][0].as_py() == "plain/00.png"
    assert table["unreadable"].to_pylist().count(True) == 1
    assert not table["flipped"][0].as_py()
    features = np.load(run.file("features.npy"), mmap_mode="r")
    assert features.dtype == np.float32
    assert features.shape == (49, 1280)
    assert run.config()["clean"]["kind"] == "images"
    assert run.config()["issues"]["near_copies"] == 2
    with pytest.raises(InputError, match="expected a readable image, got none in row plain/00"):
        adacorr.clean(photos, strict=True)


def test_a_second_look_encodes_only_what_is_new(photos, tmp_path):
    from adacorr.cleaning.encoders.images import ImageEncoder

    seen = []
    first = adacorr.clean(photos, run_dir=tmp_path / "run")
    (photos / "plain" / "new.png").write_bytes((photos / "striped" / "01.png").read_bytes()[:-1])
    original = ImageEncoder.encode

    def counted(self, content):
        seen.append(len(content))
        return original(self, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ImageEncoder, "encode", counted)
        again = adacorr.clean(photos, run_dir=tmp_path / "run", resume=True)
    assert seen == [1, 1]  # the width, and the one new file
    assert len(again.labels) == len(first.labels) + 1


def test_the_rule_takes_the_models_as_correct_does(texts):
    made, given, _ = texts
    found = adacorr.clean(made, given)
    assert found.judged.all()
    other = adacorr.correct(given, list(found.by_model.values()))
    assert other.labels.tolist() == found.labels.tolist()
    assert other.suspicion is not None
    np.testing.assert_array_equal(other.suspicion, found.suspicion)


def test_the_same_seed_gives_the_same(texts):
    made, given, _ = texts
    a, b = adacorr.clean(made, given), adacorr.clean(made, given)
    np.testing.assert_array_equal(a.pred_probs, b.pred_probs)


def test_nothing_of_the_users_is_overwritten(texts, tmp_path):
    made, given, _ = texts
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="expected a new run directory"):
        adacorr.clean(made, given, run_dir=tmp_path)
    with pytest.raises(InputError, match="expected a run of `adacorr clean` to go on with"):
        adacorr.clean(made, given, run_dir=tmp_path / "none", resume=True)


def test_empty_texts_are_marked_and_kept(texts):
    made, given, _ = texts
    found = adacorr.clean(["", *made[1:]], given)
    assert found.issues.unreadable[0]
    assert found.labels[0] == given[0]
    assert found.suspicion[0] == 0


def test_a_class_with_fewer_samples_than_folds_is_not_judged(photos, tmp_path):
    """No model has seen it: all would oppose its rows."""
    (photos / "rare").mkdir()
    for i in range(2):
        (photos / "plain" / f"0{i}.png").rename(photos / "rare" / f"{i}.png")
    found = adacorr.clean(photos, run_dir=tmp_path / "run")
    rare = np.flatnonzero(found.samples.labels == found.class_names.index("rare"))
    assert (found.labels[rare] == "rare").all()
    assert not found.judged[rare].any()
    assert (found.suspicion[rare] == 0).all()
    assert "too few samples to judge: rare" in found.also
    assert not any(line.endswith("to the models") and "rare" in line for line in found.also)
    assert np.flatnonzero(Run.open(tmp_path / "run").labels()["unjudged"]).tolist() == rare.tolist()


def test_no_class_that_is_large_enough_is_one_line():
    labels = np.arange(20) % 6
    with pytest.raises(InputError, match="expected at least 5 samples of a class, got fewer"):
        adacorr.clean(np.random.default_rng(0).normal(size=(20, 3)), labels)
