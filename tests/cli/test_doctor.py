import json
from importlib import metadata

from adacorr.cli import doctor


def test_says_versions_devices_and_data(run_cli, tmp_path, monkeypatch):
    (tmp_path / "cifar-100-python.tar.gz").touch()
    monkeypatch.setenv("ADACORR_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, out, _ = run_cli("doctor")
    assert code == 0
    assert metadata.version("numpy") in out
    assert "cpu (" in out
    assert str(tmp_path / "cifar-100-python.tar.gz") in out
    assert "adacorr data get modelnet40" in out


def test_a_missing_extra_is_named_with_its_command(run_cli, monkeypatch):
    real = metadata.version

    def without_torch(name):
        if name == "torch":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor.metadata, "version", without_torch)
    code, out, _ = run_cli("doctor")
    assert code == 0
    assert "pip install 'adacorr[train]'" in out
    assert "torch          missing  (needs >=2.5)" in out


def test_an_old_required_package_is_an_error(run_cli, monkeypatch):
    real = metadata.version
    monkeypatch.setattr(
        doctor.metadata, "version", lambda name: "1.0" if name == "numpy" else real(name)
    )
    code, out, _ = run_cli("doctor")
    assert code == 1
    assert "numpy          1.0  (needs >=2.0)" in out
    assert "A required package is missing or too old" in out


def test_json_and_quiet(run_cli):
    code, out, _ = run_cli("doctor", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["healthy"] is True
    assert set(found["extras"]) == set(doctor.PURPOSE)
    assert run_cli("doctor", "--quiet") == (0, "", "")


def test_every_user_facing_extra_is_known():
    extras = set(metadata.metadata("adacorr").get_all("Provides-Extra") or [])
    assert extras - {"docs", "dev"} == set(doctor.PURPOSE)
