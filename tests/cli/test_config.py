import tomllib

import pytest


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADACORR_CONFIG", raising=False)
    return tmp_path


@pytest.fixture
def settings(run_cli):
    """What ``bench run`` would run with."""

    def read(*argv):
        code, out, _ = run_cli(*argv, "--print-config")
        assert code == 0
        return tomllib.loads(out)["bench"]["run"]

    return read


def test_defaults_without_any_file(here, settings):
    assert settings("bench", "run", "g.toml")["workers"] == 1


def test_file_then_environment_then_flags(here, settings, monkeypatch):
    (here / "adacorr.toml").write_text("[bench.run]\nworkers = 2\nquiet = true\n")
    argv = ("bench", "run", "g.toml")
    found = settings(*argv)
    assert (found["grid"], found["workers"], found["quiet"]) == ("g.toml", 2, True)
    monkeypatch.setenv("ADACORR_BENCH_RUN_WORKERS", "3")
    assert settings(*argv)["workers"] == 3
    assert settings(*argv, "--workers", "4")["workers"] == 4
    assert settings(*argv)["quiet"] is True
    assert settings(*argv, "--no-quiet")["quiet"] is False


def test_named_file_by_flag_or_environment(here, settings, monkeypatch):
    (here / "a.toml").write_text("[bench.run]\nworkers = 5\n")
    (here / "b.toml").write_text("[bench.run]\nworkers = 6\n")
    monkeypatch.setenv("ADACORR_CONFIG", "a.toml")
    assert settings("bench", "run", "g.toml")["workers"] == 5
    assert settings("--config", "b.toml", "bench", "run", "g.toml")["workers"] == 6


def test_printed_settings_can_be_used_as_the_file(here, settings, run_cli):
    argv = ("bench", "run", "g.toml", "--workers", "7", "--quiet", "--print-config")
    (here / "saved.toml").write_text(run_cli(*argv)[1])
    again = settings("bench", "run", "--config", "saved.toml")
    assert (again["grid"], again["workers"], again["quiet"]) == ("g.toml", 7, True)


def test_what_is_not_a_flag_is_a_comment(here, run_cli):
    code, out, _ = run_cli("fit", "digits", "--noise", "pair:0.2", "--seed", "3", "--print-config")
    assert code == 0
    assert '# data = "digits"' in out
    (here / "saved.toml").write_text(out)
    code, again, _ = run_cli("fit", "digits", "--config", "saved.toml", "--print-config")
    assert code == 0
    assert again == out


def test_nothing_runs_when_the_settings_are_printed(here, settings):
    assert settings("bench", "run", "no-such-grid.toml")["grid"] == "no-such-grid.toml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[bench.run]\nwrokers = 2\n",
            "toml: expected a setting of the command, got wrokers; did you mean workers?\n",
        ),
        ("[bench.run]\nzzz = 2\n", "toml: expected a setting of the command, got zzz\n"),
        ("[bench.run]\nworkers = 'many'\n", "many"),
        ("not toml", "adacorr.toml: expected readable TOML, got Expected '='"),
        ("[bnech.run]\nworkers = 2\n", "such as [fit], got bnech; did you mean [bench]?"),
        ("workers = 2\n", "adacorr.toml: expected a table per command, such as [fit], got workers"),
    ],
)
def test_a_wrong_file_is_refused_and_says_why(here, run_cli, text, message):
    (here / "adacorr.toml").write_text(text)
    code, _, err = run_cli("bench", "run", "g.toml", "--dry-run")
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    "text",
    [
        "[predict]\nnet = 'evil.payload:go'\n",
        "[fit]\nnet = 'evil:go'\n",
        "[clean]\nencoder = 'evil:go'\n",
        "[clean]\nencoder = 'somebody/model'\n",
        "[correct]\nscheduler = 'tcp://127.0.0.1:1'\n",
    ],
)
def test_a_file_that_lies_about_chooses_no_code(here, run_cli, monkeypatch, text):
    """It may have come with a run from elsewhere; who names the file trusts it."""
    (here / "adacorr.toml").write_text(text)
    code, _, err = run_cli("clean", "data.csv", "--print-config")
    assert code == 2
    assert "expected no code and no model from elsewhere in a file that nobody named" in err
    assert run_cli("clean", "data.csv", "--print-config", "--config", "adacorr.toml")[0] == 0
    monkeypatch.setenv("ADACORR_CONFIG", "adacorr.toml")
    assert run_cli("clean", "data.csv", "--print-config")[0] == 0


def test_names_of_adacorrs_own_may_lie_about(here, run_cli):
    (here / "adacorr.toml").write_text("[fit]\nnet = 'cnn:filters=8'\n[clean]\nencoder = 'tfidf'\n")
    assert run_cli("clean", "data.csv", "--print-config")[0] == 0


def test_a_missing_file_is_one_line(here, run_cli):
    code, _, err = run_cli("--config", "no.toml", "bench", "run", "g.toml")
    assert code == 2
    assert err == "adacorr: --config: expected a TOML file, got no.toml: no such file\n"
