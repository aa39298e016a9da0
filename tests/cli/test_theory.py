import json

import numpy as np
import pytest

from adacorr.runs.directory import write_labels, write_toml


def write_run(path, seed, n=600, k=3, noisy=False):
    """Samples whose eta is known; the noisy run's probabilities are exact."""
    rng = np.random.default_rng(0)
    eta = rng.dirichlet(np.full(k, 0.5), n)
    truth = eta.argmax(axis=1)
    given = (truth + (rng.random(n) < 0.2)) % k if noisy else truth
    T = 0.8 * np.eye(k) + 0.2 * np.roll(np.eye(k), 1, axis=1)
    probs = eta @ T if noisy else eta
    order = np.random.default_rng(seed).permutation(n)
    path.mkdir()
    own = probs[np.arange(n), given] / probs.max(axis=1)
    columns = {
        "index": np.arange(n),
        "given": given,
        "corrected": given,
        "ratio": own,
        "flipped": np.zeros(n, dtype=bool),
        "suggested": probs.argmax(axis=1),
    }
    write_labels(path / "labels.parquet", {key: value[order] for key, value in columns.items()})
    np.save(path / "pred_probs.npy", probs[order].astype(np.float32))
    data = {"class_names": [f"class {c}" for c in range(k)], "noise": "pair:0.2" if noisy else None}
    write_toml(path / "config.toml", {"data": data})
    return str(path)


def test_synthetic_reproduces_the_papers_constants(run_cli, tmp_path):
    code, out, err = run_cli("theory", "synthetic", "--output", str(tmp_path / "new" / "out"))
    assert (code, err) == (0, "")
    numbers = json.loads((tmp_path / "new" / "out" / "synthetic.json").read_text())
    assert round(numbers["C"], 2) == 0.58
    assert round(numbers["lambda"], 2) == 1.27
    assert 0.9 < numbers["r2"] < 0.96
    assert len(numbers["corrections"]) == 4
    written = {path.name for path in (tmp_path / "new" / "out").iterdir()}
    stems = ("tsybakov", "bounds", "correction", "tsne")
    figures = {f"synthetic-{stem}.{suffix}" for stem in stems for suffix in ("png", "svg")}
    assert written == figures | {"synthetic.json"}
    assert "C 0.58" in out


def test_illustrate_is_a_function_of_its_seed(run_cli, tmp_path):
    for name in "ab":
        output = str(tmp_path / name)
        code, out, _ = run_cli("theory", "illustrate", "--output", output, "--quiet")
        assert (code, out) == (0, "")
    first, again = (
        [(tmp_path / name / f"illustration.{s}").read_bytes() for s in ("json", "png", "svg")]
        for name in "ab"
    )
    assert first == again


def test_tsybakov_of_a_run(run_cli, tmp_path):
    run = write_run(tmp_path / "clean", seed=1)
    code, out, _ = run_cli("theory", "tsybakov", run, "--output", str(tmp_path / "out"), "--json")
    assert code == 0
    numbers = json.loads(out)
    assert numbers == json.loads((tmp_path / "out" / "tsybakov.json").read_text())
    assert numbers["lambda"] > 0
    assert numbers["grid"][-1] == pytest.approx(0.9)
    assert {"C", "lambda", "r2", "envelope", "interval"} <= set(numbers)
    assert (tmp_path / "out" / "tsybakov.png").read_bytes().startswith(b"\x89PNG")


def test_bounds_of_a_pair_of_runs(run_cli, tmp_path):
    clean = write_run(tmp_path / "clean", seed=1)
    noisy = write_run(tmp_path / "noisy", seed=2, noisy=True)
    output = str(tmp_path / "out")
    code, out, _ = run_cli("theory", "bounds", noisy, "--clean", clean, "--output", output)
    assert code == 0
    assert "600 samples of both runs, T from pair:0.2" in out
    assert "the theorem needs eps >= the largest distance" in out
    numbers = json.loads((tmp_path / "out" / "bounds.json").read_text())
    assert numbers["error"]["max"] < 1e-5  # f is the noisy posterior
    assert numbers["low"] == pytest.approx(0, abs=0.01)
    assert numbers["high"] == pytest.approx(0.8, abs=0.05)


def test_bounds_of_one_run_says_what_it_cannot_show(run_cli, tmp_path):
    noisy = write_run(tmp_path / "noisy", seed=2, noisy=True)
    code, out, _ = run_cli("theory", "bounds", noisy, "--output", str(tmp_path / "out"))
    assert code == 0
    assert "600 samples, T from pair:0.2" in out
    assert "only --clean shows how far f is off" in out
    numbers = json.loads((tmp_path / "out" / "bounds.json").read_text())
    assert {"C", "lambda", "r2"} <= set(numbers)
    assert numbers["clean"] is None
    assert numbers["high"] == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["bounds", "{noisy}", "--noise", "uniform:0.6666666666666667"], "T: expected an invert"),
        (["tsybakov", "nowhere"], "expected a run directory, got no such folder"),
        (["bounds", "{clean}", "--clean", "{noisy}"], "expected a run trained on clean labels"),
        (["bounds", "{noisy}", "--clean", "{clean}", "--noise", "odd"], "noise: expected uniform"),
        (["tsybakov", "{clean}", "--split", "test"], "expected a column split"),
        (["tsybakov", "{tiny}"], "margins: expected at least 20 samples to fit, got 5"),
        (["illustrate", "--output", "{clean}/config.toml"], "File exists"),
    ],
)
def test_bad_input_is_one_line_and_code_2(run_cli, tmp_path, argv, message):
    paths = {
        "clean": write_run(tmp_path / "clean", seed=1),
        "noisy": write_run(tmp_path / "noisy", seed=2, noisy=True),
        "tiny": write_run(tmp_path / "tiny", seed=3, n=5),
    }
    argv = [word.format(**paths) for word in argv]
    if "--output" not in argv:
        argv += ["--output", str(tmp_path / "out")]
    code, out, err = run_cli("theory", *argv)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
