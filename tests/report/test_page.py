import json
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adacorr
from adacorr.core.certificate import Reliability
from adacorr.core.validation import InputError
from adacorr.correction import TableSettings, correct_table
from adacorr.report import write_report
from adacorr.report.diagnostics import mismatch
from adacorr.report.page import render
from adacorr.report.summary import GALLERY, SUSPECTS
from adacorr.runs.directory import Run
from adacorr.runs.reader import RunData

NAUGHTY = ["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "{{ 7*7 }}", "$\\frac$"]


class Tags(HTMLParser):
    """Collects tags, and the addresses that a browser would follow by itself."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.images_without_text = 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        found = dict(attrs)
        self.addresses += [found[name] for name in ("src", "xlink:href") if name in found]
        if tag == "img" and not found.get("alt"):
            self.images_without_text += 1
        if tag == "svg" and not (found.get("role") == "img" and found.get("aria-label")):
            self.images_without_text += 1


def page(run) -> str:
    return render(RunData.open(run))


def test_every_part_is_there(make_run):
    html = page(make_run(epochs=5, data={"source": "digits"}))
    for title in (
        "What changed",
        "Likelihood ratio of the labels in doubt",
        "Reliability of the probabilities",
        "Certified radius",
        "Noise matrix",
        "Bound against the model&#39;s error",
        "Convergence during training",
        "Most suspicious labels",
        "Changes to check first",
        "Run it again",
        "What such a number assumes",
    ):
        assert title in html, title
    assert "adacorr fit things" in html
    assert html.count("data:image/png;base64,") == SUSPECTS + GALLERY  # thumbnails of the digits
    assert "threshold δ = 0.9" in html


def test_nothing_is_fetched_and_all_pictures_speak(make_run):
    tags = Tags(page(make_run(k=100, n=2000, epochs=3, data={"source": "digits"})))
    assert not {"script", "link", "iframe", "object", "form"} & set(tags.tags)
    assert all(a.startswith(("data:", "#")) for a in tags.addresses)
    assert tags.images_without_text == 0
    assert tags.tags.count("svg") >= 6


@pytest.mark.parametrize("k", [2, 12, 13, 100])
def test_any_number_of_classes_stays_small(make_run, k):
    html = page(make_run(k=k, n=1500))
    assert len(html.encode()) < 3_000_000
    assert "class 1" in html
    assert ('class="heat"' in html) == (k <= 12)


def test_zero_flips_no_probabilities_no_metrics(make_run):
    html = page(make_run(flips=False, probs=False))
    assert "No label was changed" in html
    assert "no change can be wrong" in html
    assert "none is in doubt" not in html
    assert "stores no probabilities" in html
    assert "Convergence" not in html


def test_names_are_text(make_run):
    html = page(make_run(class_names=NAUGHTY))
    assert "<script" not in html
    assert "<img src=x" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "{{ 7*7 }}" in html


def test_names_are_text_in_pictures_too(make_run):
    names = NAUGHTY + [f"c{i}" for i in range(20)]
    html = page(make_run(k=24, n=3000, class_names=names))
    assert "<script" not in html
    assert "$\\frac$" in html  # drawn as it is, not as mathematics


def test_missing_source_is_said(make_run):
    html = page(make_run(data={"source": "/nowhere/at/all.csv"}))
    assert "Samples are not shown" in html
    assert "Most suspicious labels" in html


def test_stored_results_win(make_run):
    run = make_run()
    with run.file("config.toml").open("a") as handle:
        handle.write("[result]\nnoise_rate = 0.123\nexpected_wrong_flips = 4567.0\n")
    html = page(run)
    assert "12.3%" in html
    assert "4,567" in html


def test_why_nothing_was_changed_is_said(make_run):
    run = make_run(flips=False)
    with run.file("config.toml").open("a") as handle:
        handle.write('[result]\nnote = "few samples"\n')
    assert "Few samples." in unescape(page(run))


def test_the_automatic_rule_is_not_told_as_a_threshold(make_run):
    run = make_run()
    told = run.file("config.toml").read_text()
    automatic = told.replace("[method]\ndelta = 0.9", '[correct]\ndelta = "auto"')
    run.file("config.toml").write_text(automatic)
    html = page(run)
    assert "noise model fitted to the labels" in html
    assert "below the run" not in html
    assert "below δ" not in html


@pytest.mark.parametrize(("frequency", "said"), [(0.9, None), (0.6, "surer"), (1.0, "less sure")])
def test_the_side_of_the_mismatch(frequency, said):
    found = Reliability(
        np.array([0.85]), np.array([frequency]), np.array([10]), abs(0.85 - frequency)
    )
    assert mismatch(found) == said


def test_without_a_run_directory_the_reader_is_told_to_make_one(make_run):
    assert "correct again with" not in page(make_run())
    assert "correct again with <code>--run-dir RUN</code>" in page(make_run(".report.html.run"))


def test_no_confidence_no_number(make_run):
    html = page(make_run(confidence=False))
    assert "cannot be estimated: the rule of this run states no such number" in html


def add_result(run, **entries):
    lines = [f"{key} = {json.dumps(value)}" for key, value in entries.items()]
    with run.file("config.toml").open("a") as handle:
        handle.write("[result]\n" + "\n".join(lines) + "\n")


def add_columns(run, **columns):
    table = pq.read_table(run.file("labels.parquet"))
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, run.file("labels.parquet"))


def test_two_readings_come_before_any_number(make_run):
    run = make_run(flips=False)
    add_result(
        run,
        readings=["the model errs: 0.0% to change", "the labels err: 7.2% to change"],
        noise_rate_interval=[0.0, 0.289],
        expected_missed_errors=34.0,
        note="two readings fit",
    )
    html = page(run)
    assert 'class="alarm"' in html
    assert html.index("Two readings fit these labels equally well") < html.index("0% to 28.9%")
    assert "Answer about 50 questions" in html
    assert "<strong>34</strong> wrong labels are expected" not in html  # no reading, no number


def test_many_changes_and_a_poor_model_are_said_first(make_run):
    html = page(make_run())  # 40% of its labels were drawn at random
    assert "of all labels were changed" in html
    assert "Do not take over" in html
    assert html.index('class="alarm"') < html.index('class="tiles"')
    assert 'class="alarm"' not in page(make_run("calm", flips=False))


def test_warnings_stop_the_reader(make_run):
    run = make_run(flips=False)
    add_result(run, warnings=["the classes seem to be <permuted>"])
    html = page(run)
    assert "Check the input first" in html
    assert "The classes seem to be &lt;permuted&gt;." in html


def corrected(folder, given, pred_probs, verified=None):
    """The page of a run of `correct`."""
    table = pa.table({"label": given, "pred_probs": pred_probs.tolist()})
    pq.write_table(table, folder / "table.parquet")
    correct_table(
        folder / "table.parquet", run_dir=folder / "run", settings=TableSettings(verified=verified)
    )
    return page(Run.open(folder / "run"))


def test_a_model_that_was_trained_on_the_labels_is_named(tmp_path):
    """As a forest is on its own training rows: right on every label, the wrong ones included."""
    given = np.random.default_rng(0).integers(0, 3, 500)
    learnt = np.full((500, 3), 0.1)
    learnt[np.arange(500), given] = 0.8
    html = corrected(tmp_path, given, learnt)
    assert "Check the input first" in html
    assert "or it was trained on these very labels" in html


def test_a_calibrated_model_of_right_labels_is_not_taken_for_one_that_saw_them(tmp_path):
    rng = np.random.default_rng(0)
    truth, sure = rng.integers(0, 3, 2000), rng.beta(20, 0.4, 2000)
    first = np.where(rng.random(2000) < sure, truth, (truth + 1) % 3)
    f = np.repeat((1 - sure[:, None]) / 2, 3, axis=1)
    f[np.arange(2000), first] = sure
    assert "trained on these very labels" not in corrected(tmp_path, truth, f)


def test_a_model_that_guesses_is_to_be_replaced_first(tmp_path):
    rng = np.random.default_rng(0)
    html = corrected(tmp_path, rng.integers(0, 4, 800), rng.dirichlet(np.ones(4), 800))
    assert "Get a better model first" in html
    assert html.index("Either the model is poor") < html.index("Two readings fit")


def test_answers_close_the_question(tmp_path):
    """A few wrong labels, and a model that errs as often: open before answers, settled after."""
    rng = np.random.default_rng(0)
    truth, sure = rng.integers(0, 2, 400), rng.beta(20, 1, 400)
    first = np.where(rng.random(400) < sure, truth, 1 - truth)
    f = np.where(np.arange(2) == first[:, None], sure[:, None], 1 - sure[:, None])
    given = np.where(np.arange(400) < 4, 1 - truth, truth)
    (tmp_path / "before").mkdir()
    assert "Two readings fit these labels" in corrected(tmp_path / "before", given, f)
    answers = {int(row): int(truth[row]) for row in adacorr.ask(given, f, n=60)}
    html = corrected(tmp_path, given, f, answers)
    assert 'class="alarm"' not in html
    assert "The readings that fitted before the answers" in html


def test_suspects_are_shown_changed_or_not_and_never_surer_than_the_rows(make_run):
    run = make_run(flips=False)
    n = 300
    suspicion, other = np.full(n, 0.01), np.arange(n) % 4
    suspicion[7], other[7] = 0.9999, 3
    given = pq.read_table(run.file("labels.parquet"))["given"].to_numpy()
    other = np.where(other == given, (other + 1) % 4, other)
    add_columns(run, suspicion=suspicion, alternative=other)
    first = re.search(r'<li class="kept">.*?</li>', page(run), re.S)
    assert first is not None
    assert "row 7<" in first.group()
    assert "over 99% likely wrong" in first.group()
    assert f"class {other[7]}?" in first.group()
    assert "100" not in first.group()


def test_no_chance_of_a_single_row_while_two_readings_fit(make_run):
    run = make_run(flips=False)
    add_columns(run, suspicion=np.linspace(0, 0.5, 300), alternative=np.zeros(300, int))
    assert "likely wrong" in page(run)
    add_result(run, readings=["the labels are right", "the model is right"])
    html = page(run)
    assert "Two readings fit these labels equally well" in html
    assert "likely wrong" not in html


def test_labels_that_are_almost_surely_right_are_no_suspects(make_run):
    run = make_run(flips=False)
    suspicion = np.full(300, 0.01)
    suspicion[:10] = 0.9
    add_columns(run, suspicion=suspicion, alternative=np.zeros(300, int))
    assert page(run).count('<li class="kept">') == 10


def test_changes_that_are_all_shown_as_suspects_are_not_shown_twice(make_run):
    run = make_run()
    assert "Changes to check first" in page(run)
    table = pq.read_table(run.file("labels.parquet"))
    given, flipped = (table[name].to_numpy() for name in ("given", "flipped"))
    few = flipped & (np.cumsum(flipped) <= 5)
    corrected = np.where(few, table["corrected"].to_numpy(), given)
    pq.write_table(table.drop_columns(["corrected", "flipped"]), run.file("labels.parquet"))
    add_columns(run, corrected=corrected, flipped=few)
    add_columns(run, suspicion=np.where(few, 0.9, 0.01), alternative=np.zeros(300, int))
    assert "Changes to check first" not in page(run)


def test_lines_of_a_text_are_joined(make_run, tmp_path):
    source = tmp_path / "texts.csv"
    words = "first line\nsecond\tline of a text that is long enough to be read as a whole"
    source.write_text("label,text\n" + f'a,"{words}"\n' * 300)
    run = make_run(data={"source": str(source), "label_column": "label"})
    config = run.file("config.toml").read_text()
    run.file("config.toml").write_text(config.replace("[method]", "[correct]"))
    html = page(run)
    assert "first line second line of a text" in html
    assert "\ufffd" not in html


def test_a_certificate_is_the_first_sentence(make_run):
    run = make_run()
    assert "<dd>none</dd>" in page(run)
    said = {"sentence": "change 3 labels; at most 2.0% wrong after", "basis": "from 60 answers"}
    run.file("certificate.json").write_text(json.dumps(said))
    html = page(run)
    assert "</strong> Change 3 labels; at most 2.0% wrong after (from 60 answers)" in html
    assert "which may be others" in html  # the run's changes are not what was certified
    assert "from 60 answers" in html
    run.file("certificate.json").write_text("{}")
    with pytest.raises(InputError, match=r"certificate\.json: expected a certificate"):
        page(run)


def test_the_theory_folds(make_run):
    html = page(make_run())
    folded = html.index("<details>")
    for title in (
        "Certified radius",
        "Theorem 2",
        "Likelihood ratio of the labels",
        "Noise matrix",
    ):
        assert html.index(title) > folded, title


def test_no_bare_error_limit(make_run):
    assert not re.search(r"error\s*(<=|≤|&lt;=)\s*[\d.]+%", page(make_run()))


def test_written_atomically_where_asked(make_run, tmp_path):
    run = make_run()
    assert write_report(run) == run.file("report.html")
    target = tmp_path / "other.html"
    assert write_report(run, target) == target
    assert target.read_text() == run.file("report.html").read_text()
    with pytest.raises(InputError, match=r"no-such/report\.html: expected an existing output fol"):
        write_report(run, tmp_path / "no-such" / "report.html")


def test_a_link_in_place_of_the_report_is_replaced_not_followed(make_run, tmp_path):
    run = make_run()
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    run.file("report.html").symlink_to(victim)
    write_report(run)
    assert victim.read_text() == "precious"
    assert not run.file("report.html").is_symlink()


PEAK = """
import resource, sys
from pathlib import Path
from adacorr.report import write_report
from adacorr.runs.directory import Run
write_report(Run.open(Path(sys.argv[1])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_a_million_rows_in_bounded_memory(make_run):
    small, big = make_run("small", n=1000, k=10), make_run("big", n=1_000_000, k=10)
    peaks = [
        int(subprocess.check_output([sys.executable, "-c", PEAK, run.path])) for run in (small, big)
    ]
    # 40 MB of probabilities are mapped and read once; the estimates take a few copies of them.
    assert peaks[1] - peaks[0] < 500
    assert run_size(big) < 3_000_000


def run_size(run) -> int:
    return run.file("report.html").stat().st_size


def test_same_run_same_page(make_run):
    run = make_run(epochs=3)
    assert page(run) == page(run)


def test_row_positions_are_the_runs_own(make_run):
    """`index` names the sample in its source; probabilities are found by row."""
    run = make_run(data={"source": "digits"})
    table = pq.read_table(run.file("labels.parquet"))
    moved = pa.array(np.arange(300) + 1000)
    pq.write_table(table.set_column(0, "index", moved), run.file("labels.parquet"))
    html = page(run)
    assert re.search(r"row 1[0-2]\d\d<", html)
    assert html.count("data:image/png;base64,") == SUSPECTS + GALLERY


def test_withheld_changes_are_counted(make_run):
    run = make_run(withhold=0.3)
    n = sum(int(batch.withheld.sum()) for batch in RunData.open(run).batches())
    assert n > 0
    assert f"{n} further labels look wrong" in page(run)
    assert "further labels look wrong" not in page(make_run("plain"))


def test_what_a_net_states_of_its_own_labels_is_an_order_of_magnitude(make_run):
    run = make_run()
    with run.file("config.toml").open("a") as handle:
        handle.write("[result]\nexpected_wrong_flips = 12.0\nexpected_missed_errors = 3.0\n")
    html = page(run)
    assert "order of magnitude" in html
    assert "At least" in html  # it agrees with wrong labels that it has learnt


def test_a_methods_own_delta_is_not_the_rule_that_changed_labels(make_run):
    """`fit` trains by a threshold and corrects by the automatic rule."""
    run = make_run()
    with run.file("config.toml").open("a") as handle:
        handle.write('[correct]\ndelta = "auto"\n')
    html = page(run)
    assert "fitted to the labels" in html or "fitted noise model" in html
    assert "below δ" not in html
