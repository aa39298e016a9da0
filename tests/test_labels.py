"""One codec: every entry point takes the order of the classes in the same way."""

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adacorr
from adacorr.core.validation import InputError, RowError
from adacorr.labels import encode_labels, make_codec, names_of_columns, stated_order
from adacorr.tables.layout import Request

TEN = [str(i) for i in range(11)]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 3], r"expected integers in \[0, 3\), got 3 in row 1"),
        ([-1, 0], r"expected integers in \[0, 3\), got -1 in row 0"),
        (["a", 1], "expected all integers or all strings, got int, str"),
        ([0, None], "got NoneType, int"),
        ([0.5, 1.0], "expected integers or strings, got dtype float64"),
        ([[0], [1]], r"expected shape \(N,\)"),
        (["a", "b"], "expected 3 distinct names"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(InputError, match=f"labels: .*{message}"):
        encode_labels(labels, 3)


def test_names_and_integers_as_classes():
    coded = encode_labels(["dog", "cat"], 3, ["cat", "dog", "eel"])
    assert coded.codes.tolist() == [1, 0]
    assert coded.decode(np.array([2, 1])).tolist() == ["eel", "dog"]
    assert encode_labels([30, 10], 3, [10, 20, 30]).codes.tolist() == [2, 0]
    with pytest.raises(RowError, match="labels among cat, dog, got 'cow' in row 1"):
        encode_labels(["cat", "cow"], 2, ["cat", "dog"])
    with pytest.raises(InputError, match="labels among 1, 2, got 'cat'"):
        encode_labels(["cat"], 2, [1, 2])
    with pytest.raises(InputError, match="classes: expected 3 names"):
        encode_labels([0], 3, ["a", "b"])
    with pytest.raises(InputError, match="distinct"):
        encode_labels([0], 2, ["a", "a"])


def test_codes_do_not_alias_the_input():
    y = np.array([0, 1])
    encode_labels(y, 2).codes[0] = 1
    assert y.tolist() == [0, 1]


def test_bytes_labels():
    assert encode_labels(np.array([b"b", b"a"]), 2).codec.names == ("a", "b")


def test_foreign_arrays_of_labels():
    names = ["b", "a", "b"]
    for y in (pd.Series(names), pl.Series(names), pd.Categorical(names), np.array(names, object)):
        assert encode_labels(y, 2).codes.tolist() == [1, 0, 1]
    for y in (pd.Series([1, 0]), pl.Series([1, 0]), np.array([1, 0], object), [True, False]):
        assert encode_labels(y, 2).codes.tolist() == [1, 0]


@pytest.fixture
def clear(tmp_path):
    """Eleven classes, all labels right but row 0: what every reading of the order must say."""
    rng = np.random.default_rng(0)
    truth = np.concatenate([np.arange(11), rng.integers(0, 11, 89)])
    f = np.full((100, 11), 0.01)
    f[np.arange(100), truth] = 0.9
    given = truth.copy()
    given[0] = 5
    return given, f, truth


def parquet(path, table):
    if hasattr(table, "to_parquet"):
        table.to_parquet(path)
    elif hasattr(table, "write_parquet"):
        table.write_parquet(path)
    else:
        pq.write_table(table, path)
    return path


def table_labels(path, **columns):
    """What the table path makes of a file."""
    out = path.with_name("out.parquet")
    request = Request(**columns)
    settings = adacorr.correction.TableSettings(delta=0.5)
    result = adacorr.correct_table(path, out, columns=request, settings=settings)
    return pl.read_parquet(out)["adacorr_label"].to_list(), result


def test_integers_are_names_where_the_names_are_integers(tmp_path):
    """`correct` and the table path once flipped different rows of this."""
    labels, f = [0, 1], [[0.9, 0.1], [0.8, 0.2]]
    result = adacorr.correct(labels, f, delta=0.5, classes=["1", "0"])
    assert result.flipped.tolist() == [True, False]
    path = parquet(tmp_path / "t.parquet", pl.DataFrame({"label": labels, "probs": f}))
    assert table_labels(path, classes=["1", "0"])[0] == result.labels.tolist() == [1, 1]
    frame = pd.DataFrame({"label": labels, "probs": f})
    out = adacorr.correct_frame(frame, "probs", delta=0.5, classes=["1", "0"])
    assert out["adacorr_label"].tolist() == [1, 1]
    x = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert adacorr.data.from_arrays(x, labels, class_names=["1", "0"]).labels.tolist() == [1, 0]


@pytest.mark.parametrize("spell", ["{}", "{}.0", "{:02d}"])
def test_numbers_in_text_order_by_number(clear, tmp_path, spell):
    given, f, truth = clear
    names = [spell.format(i) for i in range(11)]
    labels = [names[i] for i in given]
    want = [names[i] for i in truth]
    assert adacorr.correct(labels, f, delta=0.5).labels.tolist() == want
    frame = pl.DataFrame({"label": labels, "probs": f.tolist()})
    assert adacorr.correct_frame(frame, "probs", delta=0.5)["adacorr_label"].to_list() == want
    found, result = table_labels(parquet(tmp_path / "t.parquet", frame))
    assert found == want
    text = tmp_path / "t.csv"
    columns = pl.DataFrame({"label": labels, **{f"p_{i}": f[:, i] for i in range(11)}})
    columns.write_csv(text)
    assert table_labels(text)[0] == ([int(x) for x in want] if spell == "{}" else want)
    data = adacorr.data.from_arrays(np.zeros((100, 2)), labels)
    assert data.class_names == tuple(names)
    assert data.labels.tolist() == given.tolist()
    said = adacorr.correct(labels, f, delta=0.5).warnings
    assert any("order of the numbers" in text for text in said) == (spell != "{:02d}")
    if spell != "{:02d}":  # there the order of the texts is that of the numbers
        assert "order of the numbers" in result.codec.guess


@pytest.mark.parametrize("way", ["frame", "frame of probabilities", "parquet", "csv"])
@pytest.mark.parametrize("text", [True, False])
def test_class_columns_by_name_map_by_name(clear, tmp_path, way, text):
    """prob_0, prob_1, prob_10, prob_2, ...: integer labels were once mapped by position."""
    given, f, truth = clear
    order = sorted(range(11), key=str)
    columns = {f"prob_{i}": f[:, i] for i in order}
    kind = str if text else int
    labels, want = [kind(i) for i in given], [kind(i) for i in truth]
    frame = pl.DataFrame({"label": labels, **columns})
    if way == "frame":
        found = adacorr.correct_frame(frame, list(columns), delta=0.5)["adacorr_label"].to_list()
    elif way == "frame of probabilities":
        found = adacorr.correct(labels, pd.DataFrame(columns), delta=0.5).labels.tolist()
    elif way == "parquet":
        path = parquet(tmp_path / "t.parquet", frame)
        found = table_labels(path, class_columns=list(columns))[0]
    else:
        frame.write_csv(tmp_path / "t.csv")
        found = table_labels(tmp_path / "t.csv", class_columns=list(columns))[0]
        want = truth.tolist()
    assert found == want


@pytest.mark.parametrize("kind", ["category", "enum", "arrow", "ClassLabel"])
@pytest.mark.parametrize("named", [False, True])
def test_the_order_that_a_type_states_holds_in_memory_and_on_disk(clear, tmp_path, kind, named):
    given, f, truth = clear
    names = [chr(ord("k") - i) for i in range(11)]  # k, j, ..., a
    text, want = [names[i] for i in given], [names[i] for i in truth]
    order = [3, 1, 2, 0, *range(4, 11)]
    probs = {f"p_{names[i]}": f[:, i] for i in order} if named else {"probs": f.tolist()}
    if kind == "category":
        frame = pd.DataFrame({"label": pd.Categorical(text, names), **probs})
    elif kind == "enum":
        frame = pl.DataFrame({"label": pl.Series(text, dtype=pl.Enum(names)), **probs})
    elif kind == "arrow":
        frame = pa.Table.from_pandas(pd.DataFrame({"label": pd.Categorical(text, names), **probs}))
    else:
        frame = datasets.Dataset.from_dict({"label": given.tolist(), **probs})
        frame = frame.cast_column("label", datasets.ClassLabel(names=names))
        want = truth.tolist()
    path = parquet(tmp_path / "t.parquet", frame)
    columns = list(probs) if named else "probs"
    out = adacorr.correct_frame(frame, columns, delta=0.5)["adacorr_label"]
    assert (out.to_pylist() if kind == "arrow" else list(out)) == want
    assert table_labels(path)[0] == want
    if kind in ("category", "enum") and not named:
        assert adacorr.correct(frame["label"], f, delta=0.5).labels.tolist() == want


def test_a_dictionary_that_states_no_order_is_only_text(clear, tmp_path):
    given, f, truth = clear
    names = [chr(ord("a") + i) for i in range(11)]
    label = pa.array([names[i] for i in given[::-1]]).dictionary_encode()
    table = pa.table({"label": label, "probs": f[::-1].tolist()})
    found, result = table_labels(parquet(tmp_path / "t.parquet", table))
    assert found == [names[i] for i in truth[::-1]]
    assert "sorted order" in result.codec.guess
    assert result.classes_from_data


def test_a_label_that_is_no_column_is_no_class():
    f = pd.DataFrame([[0.9, 0.1], [0.2, 0.8]], columns=["p_cat", "p_dog"])
    with pytest.raises(InputError, match="labels among cat, dog, got 'dgo' in row 1"):
        adacorr.correct(["cat", "dgo"], f)
    f.columns = [0, 1]
    assert adacorr.correct(["Cat", "Dog"], f, delta=0.5).labels.tolist() == ["Cat", "Dog"]


def test_a_number_is_not_cut_in_two():
    assert names_of_columns(["p_10", "p_11", "p_12"], None) == ("10", "11", "12")
    codec = make_codec(3, None, columns=["p_10", "p_11", "p_12"])
    assert codec.encode([11, 10]).tolist() == [1, 0]
    with pytest.raises(RowError, match="labels among 10, 11, 12, got 0 in row 0"):
        codec.encode([0, 1])


def test_what_was_guessed_is_said():
    assert not make_codec(2, None).guess
    assert not make_codec(3, {"0", "1", "2"}).guess
    assert not make_codec(2, {"a", "b"}, classes=["b", "a"]).guess
    assert make_codec(2, {"b", "a"}).guess == "classes in sorted order of the labels: a, b"
    assert "order of the numbers" in make_codec(11, set(TEN)).guess
    assert make_codec(11, {"0", "1"}).guess  # which of the texts would be missing is not known


@pytest.mark.parametrize(
    ("seen", "words"),
    [({"1", "2", "cat"}, "names in the whole column"), ({"a", "b"}, "3 distinct names")],
)
def test_what_the_labels_do_not_settle_is_refused(seen, words):
    with pytest.raises(InputError, match=f"labels: expected {words}"):
        make_codec(3, seen)


def test_categories_that_are_not_the_columns_are_refused():
    label = pd.Categorical(["a", "b"], ["a", "b", "c"])
    with pytest.raises(InputError, match=r"classes: expected 2 names.*got 3: a, b, c"):
        adacorr.correct(label, [[0.9, 0.1], [0.1, 0.9]])


@pytest.mark.parametrize("categories", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_a_categorical_of_integers_holds_these_integers(categories):
    """Whatever order its categories have: read as places among them, labels were exchanged."""
    y = np.array([0, 1, 2, 2, 1, 0])
    label = pd.Categorical(y, categories)
    for labels in (label, pd.Series(label)):
        assert stated_order(labels) is None
        assert encode_labels(labels, 3).codes.tolist() == y.tolist()
        named = encode_labels(labels, 3, columns=["p_0", "p_1", "p_2"])
        assert named.codes.tolist() == y.tolist()
        turned = encode_labels(labels, 3, columns=["p_2", "p_1", "p_0"])
        assert turned.codes.tolist() == (2 - y).tolist()
        assert turned.decode(turned.codes).tolist() == y.tolist()
    ahead = pd.Categorical(y + 1, [c + 1 for c in categories])
    assert encode_labels(ahead, 3, columns=["p_1", "p_2", "p_3"]).codes.tolist() == y.tolist()


@pytest.mark.parametrize("spell", ["{:02d}", "{}", "{}.0"])
def test_columns_with_zeros_in_front_name_the_classes(spell):
    """Eleven classes, p_00 to p_10 in any order: taken by place, labels were exchanged."""
    places = [3, 10, 0, 7, 1, 9, 2, 8, 4, 6, 5]
    columns = [f"p_{c:02d}" for c in places]
    y = np.arange(11)
    text = np.array([spell.format(c) for c in y])
    for labels in (text, y):
        encoded = encode_labels(labels, 11, columns=columns)
        assert np.array(places)[encoded.codes].tolist() == y.tolist()
        assert encoded.decode(encoded.codes).tolist() == labels.tolist()
        assert not encoded.codec.guess
