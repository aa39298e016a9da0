import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from PIL import Image

from adacorr.cli import main
from adacorr.cli.fit_plan import choose_method, parse_value
from adacorr.core.validation import InputError
from adacorr.review import open_review
from adacorr.review.answers import AnswerLog, Said
from adacorr.runs.directory import Run

QUICK = ("--epochs", "2", "--subset", "120", "--quiet")


@pytest.fixture(autouse=True)
def one_thread():
    import torch

    torch.set_num_threads(1)


def test_fit_writes_the_run_directory(run_cli, tmp_path):
    path = tmp_path / "run"
    options = ("--noise", "uniform:0.4", "--seed", "1", "--run-dir", str(path))
    code, out, err = run_cli("fit", "digits", *options, "--epochs", "2", "--subset", "120")
    assert code == 0, err
    assert "labels right" in out
    assert f"{path}/" in out
    assert "epoch 2/2  loss" in err  # not a terminal: sober lines
    run = Run.open(path)
    table = run.labels()
    assert table.num_rows == 120
    given, truth = (table[name].to_numpy() for name in ("given", "truth"))
    assert 0.25 < (given != truth).mean() < 0.55
    assert "label_accuracy" in run.metrics()[0]
    config = run.config()
    assert config["data"]["noise"] == "uniform:0.4"
    assert config["method"]["name"] == "posterior"
    assert config["run"]["command"].startswith("adacorr fit digits --noise uniform:0.4")
    assert "<html" in run.file("report.html").read_text()[:500]


def test_a_recipe_is_adacorrs_and_training_alone_changes_nothing(run_cli, tmp_path):
    path = tmp_path / "run"
    options = ("--recipe", "released", "--no-correct", "--run-dir", str(path), "--json")
    code, out, err = run_cli("fit", "digits", *QUICK, *options)
    assert code == 0, err
    summary = json.loads(out)
    assert summary["method"] == "adacorr"
    assert summary["labels_changed"] == 0
    assert summary["noise_rate"] is None
    assert "correct" not in Run.open(path).config()


def test_json_and_the_same_seed_twice(run_cli, tmp_path):
    summaries = []
    for name in ("a", "b"):
        where = ("--run-dir", str(tmp_path / name), "--json", "--seed", "3")
        code, out, _ = run_cli("fit", "digits", "--noise", "pair:0.3", *QUICK, *where)
        assert code == 0
        summary = json.loads(out)
        summaries.append({k: v for k, v in summary.items() if k not in ("run", "seconds")})
    assert summaries[0] == summaries[1]
    assert summaries[0]["samples"] == 120


def test_answers_of_people_are_kept_and_the_run_is_certified(run_cli, tmp_path):
    """By file, by the source's row numbers; then by the answers of a run's review page."""
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    options = ("--noise", "uniform:0.4", *QUICK, "--method", "standard", "--net", "mlp")
    assert run_cli("fit", "digits", *options, "--run-dir", str(first))[0] == 0
    table = Run.open(first).labels()
    index, truth = table["index"].to_numpy()[:30], table["truth"].to_numpy()[:30]
    assert index.max() > 120  # of the source, not of the subset
    lines = [f"{row},{label}" for row, label in zip(index, truth, strict=True)]
    answers = tmp_path / "answers.csv"
    answers.write_text("\n".join(["row,label", *lines]) + "\n")
    kept = ("--verified", str(answers), "--run-dir", str(second), "--json")
    code, out, err = run_cli("fit", "digits", *options, *kept)
    assert code == 0, err
    proof = json.loads(out)["certificate"]
    assert proof["verified"] == 30
    assert Run.open(second).labels()["corrected"].to_pylist()[:30] == truth.tolist()
    told = json.loads((second / "certificate.json").read_text())
    assert told["answers_by"]["answers.csv"].startswith("30, in a file of 20")
    assert told["certificate"]["fixed"] == proof["fixed"] > 5
    assert "answers chose" in Run.open(second).config()["rule"]["sentence"]

    data, store = open_review(Run.open(first))
    log = AnswerLog(store, data)
    for row in range(30):
        log.add(Said(row, int(truth[row]), "Ann"))
    store.close()
    kept = ("--verified", str(first), "--run-dir", str(third), "--json")
    assert json.loads(run_cli("fit", "digits", *options, *kept)[1])["certificate"] == proof


def test_a_table_with_text_labels_then_predict_without_them(run_cli, tmp_path):
    rng = np.random.default_rng(0)
    kinds = np.array(["ash", "oak"])[np.arange(80) % 2]
    x = rng.normal(size=(80, 2)) + (kinds == "oak")[:, None] * 5
    header = "a,b,kind\n"
    rows = [f"{p:.3f},{q:.3f},{k}\n" for (p, q), k in zip(x, kinds, strict=True)]
    data = tmp_path / "trees.csv"
    data.write_text(header + "".join(rows))
    run = str(tmp_path / "run")
    options = ("--label-column", "kind", "--epochs", "30", "--lr", "0.01", "--run-dir", run)
    code, _, err = run_cli("fit", str(data), *options, "--quiet")
    assert code == 0, err
    assert Run.open(run).config()["data"]["source"] == str(data.resolve())
    new = tmp_path / "new.csv"
    new.write_text("b,a\n5,5\n0,0\n")
    for suffix in ("csv", "parquet", "npy"):
        out = str(tmp_path / f"out.{suffix}")
        code, _, err = run_cli("predict", run, str(new), "--output", out)
        assert code == 0, err
    table = pyarrow.csv.read_csv(tmp_path / "out.csv")
    assert table["predicted"].to_pylist() == ["oak", "ash"]
    probs = np.load(tmp_path / "out.npy")
    listed = pq.read_table(tmp_path / "out.parquet")["pred_probs"].to_pylist()
    np.testing.assert_array_equal(probs, np.array(listed, np.float32))
    np.testing.assert_allclose(table["p_oak"].to_numpy(), probs[:, 1], rtol=1e-5)


def test_an_image_folder_with_an_unreadable_file(run_cli, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(8):
            pixels = rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / name / f"{i}.png")
    (tmp_path / "pets" / "dog" / "broken.png").write_bytes(b"not an image")
    run = str(tmp_path / "run")
    options = ("--epochs", "1", "--run-dir", run, "--method", "standard")
    code, _, err = run_cli("fit", str(tmp_path / "pets"), *options)
    assert code == 2
    assert "broken.png" in err
    code, out, err = run_cli("fit", str(tmp_path / "pets"), *options, "--skip-unreadable")
    assert code == 0, err
    assert "1 unreadable" in out
    assert "broken.png" in err
    ids = Run.open(run).labels()["id"].to_pylist()
    assert "cat/0.png" in ids


def test_clean_validation(run_cli, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = (rng.normal(size=(60, 3)) + 5 * np.eye(3)[y]).astype(np.float32)
    for name, part in (("train", slice(0, 40)), ("clean", slice(40, 60))):
        np.savez(tmp_path / f"{name}.npz", X=X[part], y=y[part])
    run = str(tmp_path / "run")
    options = ("--clean-validation", str(tmp_path / "clean.npz"), "--epochs", "2", "--quiet")
    code, _, err = run_cli("fit", str(tmp_path / "train.npz"), *options, "--run-dir", run)
    assert code == 0, err
    assert set(Run.open(run).labels()["split"].to_pylist()) == {"train"}


def test_bad_input_is_one_line_and_exit_code_2(run_cli, tmp_path):
    (tmp_path / "empty").mkdir()
    cases = [
        (("fit",), "data: expected a named dataset or a path, got none"),
        (("fit", str(tmp_path / "none.csv")), "expected a file, a folder or one of digits"),
        (("fit", str(tmp_path / "empty")), "empty"),
        (("fit", "digits", "--method", "magic"), "method: expected one of standard, "),
        (("fit", "digits", "--set", "burnin=3"), "posterior: expected fields burn_in=auto, window"),
        (("fit", "digits", "--set", "delta"), "--set: expected FIELD=VALUE, got 'delta'"),
        (("fit", "digits", "--recipe", "paper", "--set", "delta=7"), "delta: expected"),
        (("fit", "digits", "--method", "standard", "--recipe", "paper"), "expected fields none"),
        (("fit", "digits", "--noise", "loud"), "noise: expected"),
        (("fit", "digits", "--net", "huge"), "net: expected one of"),
        (("fit", "digits", "--epochs", "0"), "epochs"),
        (("fit", "--resume", str(tmp_path)), "expected a run directory with config.toml"),
        (("predict", str(tmp_path), "digits", "--output", "x.csv"), "expected a run directory"),
        (("predict", str(tmp_path), "digits", "--output", "x.txt"), "expected a name in .parquet"),
    ]
    for argv, message in cases:
        where = ("--run-dir", str(tmp_path / "run")) if argv[0] == "fit" else ()
        code, _, err = run_cli(*argv, *where)
        assert code != 0, argv
        assert message in " ".join(err.replace("│", " ").split()), (argv, err)
        assert "Traceback" not in err


def test_fields_of_a_method_are_set_without_repeating_defaults():
    method = choose_method("adacorr", "released", ("burn_in=5", "delta=0.8", "top_k=null"))
    assert vars(method)["burn_in"] == 5
    assert vars(method)["delta"] == 0.8
    assert vars(method)["recipe"] == "released"
    assert parse_value("[1, 2]") == [1, 2]
    with pytest.raises(InputError, match="got 'speed'"):
        choose_method("standard", None, ("speed=1",))


def command(*argv):
    return [sys.executable, "-m", "adacorr", *argv]


def stop_after(epoch, checkpoints, process):
    """Freeze a run once a checkpoint of `epoch` or later is there, however short its epochs are."""
    deadline = time.monotonic() + 120
    while not any(path.name >= f"epoch-{epoch:06d}" for path in checkpoints.glob("epoch-*")):
        assert process.poll() is None, "the run ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGSTOP)


def test_kill_and_resume_from_the_command_line(run_cli, tmp_path):
    options = ("--noise", "uniform:0.3", "--epochs", "60", "--subset", "200", "--seed", "2")
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command("fit", "digits", *options, "--quiet", "--run-dir", str(killed)), env=environment
    )
    stop_after(3, killed / "checkpoint", process)
    code, _, err = run_cli("fit", "--resume", str(killed))
    assert code == 2
    assert f"held by process {process.pid} on " in err
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "labels.parquet").exists()
    assert run_cli("fit", "--resume", str(killed), "--quiet")[0] == 0
    assert run_cli("fit", "digits", *options, "--quiet", "--run-dir", str(whole))[0] == 0
    for name in ("labels.parquet", "model.safetensors", "pred_probs.npy"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()


LIMITED = """
import resource, sys
from adacorr.cli import main
import torch
torch.set_num_threads(1)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
main(sys.argv[1:])
"""


def test_no_room_for_a_checkpoint_is_one_line(tmp_path):
    argv = ("fit", "digits", *QUICK, "--run-dir", str(tmp_path / "run"))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *argv], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("adacorr: ")
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr
    assert list((tmp_path / "run" / "checkpoint").iterdir()) == []


def test_help_needs_no_torch():
    script = (
        "import sys\nfrom adacorr.cli import main\n"
        "try:\n    main(['fit', '--help'])\nexcept SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"
    assert "--noise" in done.stdout


def test_help_names_every_method():
    from adacorr.cli.fit import fit
    from adacorr.train import METHODS

    assert [name for name in METHODS if name not in (fit.__doc__ or "")] == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lr", "0.5"], "--lr: expected 0.001 as in the run, got 0.5"),
        (["--epochs", "7"], "--epochs: expected 2 as in the run, got 7"),
        (["--method", "adacorr"], "--method: expected standard as in the run, got adacorr"),
        (["--subset", "9"], "--subset: expected 60 as in the run, got 9"),
        (["--noise", "uniform:0.2"], "--noise: expected none as in the run, got uniform:0.2"),
        (["--no-correct"], "--correct: expected True as in the run, got False"),
        (["--net", "mlp"], "--net: expected none as in the run, got mlp"),
        (["--seed", "0"], None),
        (["--workers", "0"], None),
    ],
)
def test_resume_refuses_settings_that_differ(tmp_path, capsys, flags, words):
    """They were ignored without a word."""
    run = tmp_path / "run"
    begin = ["fit", "digits", "--subset", "60", "--epochs", "2", "--method", "standard"]
    for argv in ([*begin, "--run-dir", str(run)], ["fit", "--resume", str(run), *flags]):
        with pytest.raises(SystemExit) as exit_:
            main([*argv, "--quiet"])
    assert exit_.value.code == (2 if words else None) or (not words and not exit_.value.code)
    assert (words or "") in capsys.readouterr().err
