"""Nothing in a run directory is trusted."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adacorr.core.validation import InputError
from adacorr.report import write_report
from adacorr.runs.reader import RunData, clean_text


def rewrite(run, **columns):
    path = run.file("labels.parquet")
    table = pq.read_table(path)
    for name, values in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(values))
    pq.write_table(table, path)


def test_batches_cover_the_table_in_order(make_run):
    run = make_run(n=500)
    data = RunData.open(run)
    table = pq.read_table(run.file("labels.parquet"))
    batches = list(data.batches(rows=64))
    assert [b.start for b in batches] == list(range(0, 500, 64))
    for name in ("index", "given", "corrected", "suggested", "ratio", "flipped", "truth"):
        joined = np.concatenate([getattr(b, name) for b in batches])
        np.testing.assert_array_equal(joined, table[name].to_numpy())


def bad_class(run):
    rewrite(run, given=[0] * 299 + [99])


def bad_ratio(run):
    rewrite(run, ratio=[0.5] * 299 + [float("nan")])


def text_labels(run):
    rewrite(run, corrected=["x"] * 300)


def empty_cell(run):
    rewrite(run, suggested=[0] * 299 + [None])


def huge_number(run):
    rewrite(run, given=pa.array([2**63] * 300, pa.uint64()))


def not_parquet(run):
    run.file("labels.parquet").write_bytes(b"PAR1 but not really PAR1")


def missing_column(run):
    table = pq.read_table(run.file("labels.parquet")).drop_columns(["ratio"])
    pq.write_table(table, run.file("labels.parquet"))


def no_rows(run):
    pq.write_table(
        pq.read_table(run.file("labels.parquet")).slice(0, 0), run.file("labels.parquet")
    )


def data_is_a_number(run):
    run.file("config.toml").write_text("data = 3\n")


def names_are_a_number(run):
    run.file("config.toml").write_text("[data]\nclass_names = 3\n")


def not_toml(run):
    run.file("config.toml").write_bytes(b"\xff\xfe[[[")


def huge_config(run):
    run.file("config.toml").write_text("#" + "x" * (5 << 20))


def linked_labels(run):
    target = run.path.parent / "elsewhere.parquet"
    run.file("labels.parquet").rename(target)
    run.file("labels.parquet").symlink_to(target)


def linked_config(run):
    target = run.path.parent / "elsewhere.toml"
    run.file("config.toml").rename(target)
    run.file("config.toml").symlink_to(target)


def wrong_shape(run):
    np.save(run.file("pred_probs.npy"), np.ones((3, 4), np.float32))


def objects(run):
    np.save(run.file("pred_probs.npy"), np.array([{}] * 300, dtype=object), allow_pickle=True)


def cut_short(run):
    whole = run.file("pred_probs.npy").read_bytes()
    run.file("pred_probs.npy").write_bytes(whole[:1000])


def infinite_probs(run):
    np.save(run.file("pred_probs.npy"), np.full((300, 4), np.inf, np.float32))


def text_review(run):
    path = run.file("labels.parquet")
    table = pq.read_table(path)
    pq.write_table(table.append_column("review", pa.array(["yes"] * 300)), path)


def endless_number(run):
    run.file("metrics.jsonl").write_text('{"loss": ' + "9" * 5000 + "}\n")


def deep_json(run):
    run.file("metrics.jsonl").write_text("[" * 200_000 + "\n")


HOSTILE = {
    bad_class: "given in .* row 299",
    bad_ratio: "ratio in .* row 299",
    text_labels: "whole numbers in column corrected",
    empty_cell: "no empty cells in column suggested",
    huge_number: "labels.parquet",
    not_parquet: "readable parquet",
    missing_column: "no ratio",
    no_rows: "at least one row",
    data_is_a_number: "data.class_names",
    names_are_a_number: "data.class_names",
    not_toml: "readable TOML",
    huge_config: "at most 4 MB",
    linked_labels: "symbolic link",
    linked_config: "symbolic link",
    wrong_shape: r"shape \(300, 4\)",
    objects: "plain .npy",
    cut_short: "plain .npy",
    infinite_probs: "pred_probs",
    deep_json: "metrics.jsonl",
    endless_number: "metrics.jsonl",
    text_review: "true or false in column review",
}


@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda f: f.__name__)
def test_a_hostile_run_gives_one_clear_line(make_run, spoil):
    run = make_run()
    spoil(run)
    with pytest.raises(InputError, match=HOSTILE[spoil]) as caught:
        write_report(run)
    assert "\n" not in str(caught.value)
    assert not run.file("report.html").exists()


def test_odd_metrics_are_left_out(make_run):
    run = make_run()
    lines = ['{"epoch": 1, "loss": 0.5, "name": "x", "nested": {"a": 1}, "on": true}']
    lines += ['{"epoch": NaN, "loss": Infinity}', "[1, 2]", "nonsense", '{"loss": 1e999}']
    lines += [json.dumps({"epoch": 2, "loss": 10**400})]
    run.file("metrics.jsonl").write_text("\n".join(lines))
    assert RunData.open(run).metrics() == [{"epoch": 1, "loss": 0.5}, {}, {}, {"epoch": 2}]


def test_names_are_cut_and_cleaned(make_run):
    run = make_run(k=2, class_names=["a" * 10_000, "line\nbreak\x00"])
    names = RunData.open(run).class_names
    assert len(names[0]) == 80
    assert names[1] == "line\ufffdbreak\ufffd"
    assert clean_text("<b>") == "<b>"  # escaping is the page's job


def test_config_numbers(make_run):
    run = make_run()
    with run.file("config.toml").open("a") as handle:
        handle.write("[result]\na = 0.5\nb = true\nc = 'x'\nd = nan\n")
    data = RunData.open(run)
    assert [data.number("result", key) for key in "abcde"] == [0.5, None, None, None, None]
    assert data.number("nowhere", "a") is None


def test_only_an_unapplied_suggestion_counts_as_withheld(make_run):
    run = make_run()
    path = run.file("labels.parquet")
    table = pq.read_table(path)
    pq.write_table(table.append_column("review", pa.array([True] * 299 + [None])), path)
    (batch,) = RunData.open(run).batches()
    open_suggestion = (batch.corrected == batch.given) & (batch.suggested != batch.given)
    open_suggestion[299] = False
    assert batch.withheld.tolist() == open_suggestion.tolist()
    assert (batch.proposed[batch.flipped] == batch.corrected[batch.flipped]).all()
