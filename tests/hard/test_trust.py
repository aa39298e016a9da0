"""What an adversary tried: flipped bits, power loss, code in a run, links, small but huge files.

Each experiment is one that once went wrong, with more like it; they are counted.
"""

from __future__ import annotations

import contextlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from adacorr.core.validation import InputError
from adacorr.review.export import final_labels
from adacorr.review.server import DATABASE
from adacorr.review.store import SignOff
from adacorr.runs.directory import Run
from adacorr.runs.reader import RunData

MB = 1 << 20
BITS = 120  # flipped in each file
PATIENCE = 900
PEAK_MB = 1500  # of a command on a file made to harm, torch and all
FIT = ["--epochs", "1", "--net", "mlp", "--quiet"]
MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stderr=subprocess.PIPE, text=True, timeout=900)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
print(done.stderr)
"""


# -- flipped bits ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A run of `fit`, whose model predicts, with decisions about its changes."""
    folder = tmp_path_factory.mktemp("finished")
    command = [sys.executable, "-m", "adacorr", "fit", "digits", "--noise", "uniform:0.4"]
    words = ["--subset", "400", "--epochs", "6", "--net", "mlp", "--quiet"]
    subprocess.run([*command, *words, "--run-dir", folder / "run"], check=True)
    return folder / "run"


def outcome(run: Path, open_store: Callable) -> dict[str, bytes]:
    """All that a user takes from a run: final labels, probabilities, predictions."""
    from adacorr.train.saved import load_model

    opened = Run.open(run)
    data, store = RunData.open(opened), open_store(opened)
    try:
        labels = final_labels(data, store, "accept")
    finally:
        store.close()
    probs = data.pred_probs
    assert probs is not None
    data.metrics()
    X = np.random.default_rng(0).random((20, 64)).astype(np.float32) * 16
    predicted = load_model(opened).predict_proba(X.reshape(20, 8, 8, 1))
    return {
        "labels": repr((labels.labels.tolist(), labels.decided_by.tolist())).encode(),
        "probs": probs[:].tobytes(),
        "predicted": predicted.tobytes(),
    }


@pytest.mark.parametrize(
    "name", ["config.toml", "labels.parquet", "pred_probs.npy", "model.safetensors", DATABASE]
)
def test_no_flipped_bit_is_believed(name, finished, open_store, tmp_path, record):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    store = open_store(Run.open(run))
    choices = [("accept", None), ("reject", None), ("other", 1)]
    store.decide([SignOff(i, *choices[i % 3]) for i in range(len(store.flips))], "Ann")
    store.close()
    wanted = outcome(run, open_store)
    path = run / name
    whole = path.read_bytes()
    counts: Counter[str] = Counter()
    for bit in np.random.default_rng(7).integers(0, 8 * len(whole), BITS).tolist():
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found = outcome(run, open_store)
        except InputError as error:
            assert name in str(error), error  # noqa: PT017
            counts["refused"] += 1
        else:
            assert found == wanted, f"bit {bit} of {name} changed the result"
            counts["harmless"] += 1
        for extra in ("-wal", "-shm"):
            (run / (DATABASE + extra)).unlink(missing_ok=True)
    if name != DATABASE:  # of a database, much is not in use
        assert counts["harmless"] == 0
    record("bits", **{name: {"refused": counts["refused"], "harmless": counts["harmless"]}})


# -- power loss ------------------------------------------------------------------------------------

CALL = re.compile(r"^\d+\s+(\w+)\((.*)\)\s+= (-?\d+)")
HANDLE = re.compile(r"\d+<([^>]*)>")
NAMED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def calls(log: Path) -> list[tuple[str, list[str]]]:
    """(system call, its paths) in order, of calls that succeeded."""
    found = []
    for line in log.read_text(errors="replace").splitlines():
        match = CALL.match(line)
        if match and int(match[3]) >= 0:
            paths = NAMED.findall(match[2]) if match[1].startswith("ren") else []
            found.append((match[1], paths or HANDLE.findall(match[2])))
    return found


def unsafe(log: Path, folder: Path) -> list[str]:
    """Files below `folder` that a power loss right after the command could leave empty or unnamed.

    A file is safe when it was brought to the disk after it was last written and before it, or a
    folder around it, took its name, and the folder that holds the name was, after that.
    """
    events = calls(log)
    bad = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name, synced, written, entered, renamed = str(file), -1, -1, -1, len(events)
        for i in range(len(events) - 1, -1, -1):
            call, paths = events[i]
            if call.startswith("rename") and (name + "/").startswith(paths[-1] + "/"):
                if renamed == len(events):
                    renamed = i
                    parent = str(Path(paths[-1]).parent)
                    entered = max(
                        (j for j, (c, p) in enumerate(events) if c == "fsync" and p == [parent]),
                        default=-1,
                    )
                name = paths[0] + name[len(paths[-1]) :]
            elif call in ("fsync", "fdatasync") and paths == [name]:
                synced = max(synced, i)
            elif call in ("write", "pwrite64", "writev") and paths[:1] == [name]:
                written = max(written, i)
        in_order = synced < renamed or written > renamed  # appended to since
        if not (written < synced and in_order and renamed < entered):
            bad.append(f"{file.name}: written {written} synced {synced} named {renamed} {entered}")
    return bad


def traced(log: Path, *words: object) -> subprocess.CompletedProcess:
    some = "fsync,fdatasync,rename,renameat,renameat2,write,pwrite64,writev"
    strace = ["strace", "-f", "-y", "-s", "0", "-e", f"trace={some}", "-o", str(log)]
    command = [*strace, sys.executable, "-m", "adacorr", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.mark.parametrize("command", ["correct", "folder", "fit"])
def test_power_loss_after_a_command(command, make_table, tmp_path, record):
    if shutil.which("strace") is None:
        pytest.skip("expected strace, got none (Debian: apt-get install strace)")
    out, log = tmp_path / "out", tmp_path / "strace.log"
    out.mkdir()
    (tmp_path / "in").mkdir()
    table = make_table(tmp_path / "in" / "a.parquet", 30_000)
    words = {
        "correct": ["correct", table, "--output", out / "a.parquet", "--run-dir", out / "run",
                    "--report", out / "report.html"],
        "folder": ["correct", tmp_path / "in", "--output", out / "parts"],
        "fit": ["fit", "digits", "--subset", "300", *FIT, "--run-dir", out / "run"],
    }[command]  # fmt: skip
    done = traced(log, *words)
    if "ptrace" in done.stderr:
        pytest.skip("expected the right to trace a process, got none")
    assert done.returncode == 0, done.stderr
    (out / "run" / ".lock").unlink(missing_ok=True)  # worth nothing without its process
    files = [path for path in out.rglob("*") if path.is_file()]
    assert unsafe(log, out) == []
    record("power_loss", **{command: len(files)})


# -- what does not belong --------------------------------------------------------------------------


def test_nothing_of_a_run_from_elsewhere_runs(adacorr, finished, tmp_path, record):
    """Ways to name code, in the folder and beside the run; predict and resume."""
    ways = ("evil.payload:go", "evil.payload:", "os.path:join", "subprocess.x:Popen", "evil.x:y:z")
    tried = 0
    for spec in ways:
        run = tmp_path / f"run{tried}"
        shutil.copytree(finished, run)
        config = (run / "config.toml").read_text()
        (run / "config.toml").write_text(re.sub("(?m)^net = .*$", f'net = "{spec}"', config))
        (run / "manifest.json").unlink()
        for place in (run, tmp_path):
            (place / "evil").mkdir(exist_ok=True)
            (place / "evil" / "__init__.py").write_text("open('ran', 'w')")
            (place / "evil" / "payload.py").write_text("open('ran', 'w')")
        for words in (["predict", run, "digits", "--output", tmp_path / "o.npy"],
                      ["fit", "--resume", run]):  # fmt: skip
            place = (run, tmp_path)[tried % 2]
            line = adacorr(*words, cwd=place).one_line()
            assert "which is code" in line
            assert not (place / "ran").exists()
            tried += 1
    record("foreign", code_refused=tried)


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory) -> Path:
    """A run of `clean` beside its table."""
    folder, rng = tmp_path_factory.mktemp("cleaned"), np.random.default_rng(0)
    y = np.arange(300) % 2
    table = pa.table({"label": y ^ (rng.random(300) < 0.1), "size": 3 * y + rng.normal(size=300)})
    pq.write_table(table, folder / "table.parquet")
    command = [sys.executable, "-m", "adacorr", "clean", folder / "table.parquet", "--quiet"]
    subprocess.run([*command, "--run-dir", folder / "run"], check=True)
    return folder / "run"


def evil(*places: Path) -> None:
    for place in places:
        (place / "evil").mkdir(exist_ok=True)
        (place / "evil" / "__init__.py").write_text("open('ran', 'w')")
        (place / "evil" / "payload.py").write_text("open('ran', 'w')")


def test_no_encoder_that_a_clean_names_is_loaded(adacorr, cleaned, tmp_path, record):
    """Code, and models of a hub or a folder; predict and going on."""
    tried, new = 0, cleaned.parent / "table.parquet"
    for spec in ("evil:go", "evil.payload:go", "os:getcwd", "somebody/model", "./evil", "/tmp"):
        run = Path(shutil.copytree(cleaned, tmp_path / f"run{tried}"))
        settings = run / "cache" / "settings.toml"
        text = settings.read_text().replace("[clean]\n", f'[clean]\nencoder = "{spec}"\n')
        settings.write_text(text)
        evil(run, tmp_path)
        for words in (["predict", run, new, "--output", tmp_path / "o.npy"],
                      ["clean", "--resume", run]):  # fmt: skip
            place = (run, tmp_path)[tried % 2]
            assert "expected an encoder of adacorr's" in adacorr(*words, cwd=place).one_line()
            assert not (place / "ran").exists()
            tried += 1
    record("foreign", encoders_refused=tried)


def test_settings_that_lie_about_choose_no_code(adacorr, finished, cleaned, tmp_path, record):
    """An ``adacorr.toml`` that came with a run, where the user happens to stand."""
    words = {
        "predict": ["predict", finished, "digits", "--output", "o.npy"],
        "fit": ["fit", "digits", "--subset", "300", *FIT, "--run-dir", "run"],
        "clean": ["clean", cleaned.parent / "table.parquet", "--run-dir", "run"],
        "correct": ["correct", cleaned.parent / "table.parquet", "--output", "o.csv"],
    }
    lines = {
        "predict": ["net = 'evil.payload:go'", "encoder = 'evil:go'"],
        "fit": ["net = 'evil:go'", "net = 'evil.payload:go'"],
        "clean": ["encoder = 'evil:go'", "encoder = 'somebody/model'"],
        "correct": ["engine = 'dask'\nscheduler = 'tcp://127.0.0.1:9'"],
    }
    tried = 0
    for command, settings in lines.items():
        for text in settings:
            place = tmp_path / str(tried)
            place.mkdir()
            evil(place)
            (place / "adacorr.toml").write_text(f"[{command}]\n{text}\n")
            line = adacorr(*words[command], cwd=place).one_line()
            assert "expected no code and no model from elsewhere" in line
            assert not (place / "ran").exists()
            tried += 1
    record("foreign", settings_refused=tried)


def test_going_on_with_a_clean_writes_through_no_link(adacorr, cleaned, tmp_path, record):
    tried = 0
    for path in sorted(path for path in cleaned.rglob("*") if path.is_file()):
        name = path.relative_to(cleaned)
        for link in (Path.symlink_to, Path.hardlink_to):
            run = Path(shutil.copytree(cleaned, tmp_path / f"run{tried}"))
            precious = tmp_path / f"precious{tried}"
            (run / name).rename(precious)
            link(run / name, precious)
            kept = precious.read_bytes()
            if name.name != "encoder.json":
                (run / "cache" / "encoder.json").write_text("{}")  # all is to be made anew
            adacorr("clean", "--resume", run, "--quiet")
            assert precious.read_bytes() == kept, name
            shutil.rmtree(run)
            tried += 1
    record("foreign", clean_links_harmless=tried)


def changes(table: pa.Table) -> dict[str, pa.Table]:
    """Ways in which a source changes after the run."""
    n, rng = table.num_rows, np.random.default_rng(0)
    other = table.set_column(1, "text", pa.array([f"another text {i}" for i in range(n)]))
    return {
        "sorted again": table.take(rng.permutation(n)),
        "a row added in front": pa.concat_tables([table.slice(n - 1), table]),
        "a row gone": table.slice(1),
        "other rows": other.take(rng.permutation(n)),
    }


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_no_row_stands_for_another(adacorr, named, suffix, tmp_path, record):
    """A source that changed after the run, or after people were asked about its rows."""
    from adacorr.runs.samples import Items

    n, rng = 300, np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    p = np.where(rng.random(n) < 0.1, 1 - y, y) * 0.8 + 0.1
    texts = [f"text number {i}" for i in range(n)]
    ids = pa.array([f"r{i}" for i in range(n)])
    table = pa.table({"id": ids, "text": texts, "label": y, "p_0": 1 - p, "p_1": p})
    table = table if named else table.rename_columns(["name", *table.column_names[1:]])
    write = pq.write_table if suffix == ".parquet" else pyarrow.csv.write_csv
    looked = refused = 0
    for number, changed in enumerate(changes(table).values()):
        place = tmp_path / str(number)
        place.mkdir()
        source, answers = place / f"a{suffix}", place / "answers.csv"
        write(table, source)
        adacorr("correct", source, "--run-dir", place / "run", "--quiet")
        adacorr("ask", source, "--n", "20", "--output", answers, "--quiet")
        head, *rows = answers.read_text().splitlines()
        answers.write_text("\n".join([head, *(row + "0" for row in rows)]) + "\n")
        write(changed, source)
        items = Items(RunData.open(Run.open(place / "run")), np.arange(n), 64)
        for i in range(n):
            text = items.get(i).fields.get("text")
            gone = named and text is not None and text.startswith("another")  # the id's new text
            assert text in (None, "", texts[i]) or gone, (i, text)
            looked += 1
        done = adacorr("correct", source, "--verified", answers, "--output", place / "o.csv")
        assert "has changed since" in done.one_line()
        refused += 1
    name = f"{suffix[1:]}{', with ids' if named else ''}"
    record("identity", **{name: {"samples": looked, "answers_refused": refused}})


def test_a_crowd_that_waits_keeps_nobody_out(finished, serve, record):
    """Half of the connections are in the middle of a request, and new ones come all the time."""
    server = serve(Run.open(finished))
    host, port = server.origin.removeprefix("http://").split(":")
    crowd: list[socket.socket] = []
    for round_ in range(20):
        for i in range(50):
            crowd.append(socket.create_connection((host, int(port))))
            with contextlib.suppress(OSError):
                crowd[-1].sendall(b"GET / HTTP/1.1\r\nHost:" if i % 2 else b"")
        with server.visitor() as visitor:
            assert visitor.get("/api/run").status_code == 200, round_
    for connection in crowd:
        connection.close()
    record("review_load", crowd=len(crowd), served_in_the_crowd=20)


def test_links_in_a_run_lead_nowhere(adacorr, finished, tmp_path, record):
    """No file outside of the run is written or cut."""
    precious, readers = tmp_path / "precious", {
        "fit": (".lock", "metrics.jsonl", "checkpoint"),
        "report": ("labels.parquet", "pred_probs.npy", "config.toml", "manifest.json"),
        "review": (DATABASE, "labels.parquet"),
    }  # fmt: skip
    tried = 0
    for command, names in readers.items():
        for name in names:
            run = tmp_path / f"run{tried}"
            shutil.copytree(finished, run)
            place = run / name
            if place.is_dir():
                shutil.rmtree(place)
            place.unlink(missing_ok=True)
            precious.write_text("do not lose")
            place.symlink_to(precious)
            words = {
                "fit": ["fit", "--resume", run],
                "report": ["report", run],
                "review": ["review", run, "--export", tmp_path / f"x{tried}.csv"],
            }[command]
            adacorr(*words, "--quiet")
            assert precious.read_text() == "do not lose", (name, words)
            tried += 1
    record("foreign", links_harmless=tried)


def test_a_cluster_on_this_machine_takes_no_work_from_others(record):
    """Whoever reaches a scheduler has it run code: there must be none to reach."""
    from urllib.error import HTTPError
    from urllib.request import urlopen

    from adacorr.correction.cluster import connect

    tried = 0
    with connect(None):
        own = psutil.Process()
        ports = {
            connection.laddr
            for process in (own, *own.children(recursive=True))
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }
        for ip, port in ports:
            assert ip == "127.0.0.1"
            for path in ("", "status", "metrics", "json/identity.json", "proxy/80/host/", "health"):
                with pytest.raises(HTTPError, match="404"):  # Dask's web server, and nothing on it
                    urlopen(f"http://{ip}:{port}/{path}", timeout=60)
                tried += 1
    record("foreign", cluster_asked=tried)


# -- small files that are huge ---------------------------------------------------------------------


def long_text(path: Path, column: str = "text") -> Path:
    """Nine gigabytes in a kilobyte."""
    n = 9000
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array(["x" * MB]))
    f = np.tile([0.9, 0.1], (n, 1))
    columns = {"label": np.arange(n) % 2, "p_0": f[:, 0], "p_1": f[:, 1], column: texts}
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    return path


def long_label(path: Path) -> Path:
    return long_text(path, "given_label")


def many_rows(path: Path) -> Path:
    n = 40_000_000
    zeros = np.zeros(n, np.int8)
    table = pa.table({"label": zeros, "p_0": zeros, "p_1": np.ones(n, np.int8)})
    with pq.ParquetWriter(path, table.schema) as file:
        for _ in range(10):
            file.write_table(table, row_group_size=n)
    return path


def huge_list(path: Path) -> Path:
    n = 120_000_000
    lists = pa.ListArray.from_arrays(pa.array([0, 2, n], pa.int32()), np.zeros(n, np.float32))
    pq.write_table(pa.table({"label": [0, 1], "probs": lists}), path, compression="zstd")
    return path


def honest_long_rows(path: Path) -> Path:
    """Not refused: 600 MB of texts of 60 kB."""
    rng, number = np.random.default_rng(0), pa.float64()
    schema = pa.schema({"label": pa.int64(), "p_0": number, "p_1": number, "text": pa.string()})
    with pq.ParquetWriter(path, schema) as file:
        for _ in range(10):
            n = 1000
            p = rng.random(n)
            texts = [rng.bytes(30_000).hex() for _ in range(n)]
            file.write_table(
                pa.table({"label": rng.integers(0, 2, n), "p_0": p, "p_1": 1 - p, "text": texts})
            )
    return path


def wide(path: Path) -> Path:
    """Not refused: 20,000 columns and four rows."""
    p = np.array([0.9, 0.1, 0.9, 0.1])
    more = {f"x{i}": p for i in range(20_000)}
    pq.write_table(pa.table({"label": [0, 1, 0, 1], "p_0": p, "p_1": 1 - p, **more}), path)
    return path


def bombs(path: Path) -> Path:
    from PIL import Image

    for name in ("a", "b"):
        (path / name).mkdir(parents=True)
    Image.new("RGB", (7900, 8100)).save(path / "a" / "0.png")
    for i in range(80):
        if i:
            shutil.copy(path / "a" / "0.png", path / "ab"[i % 2] / f"{i}.png")
    return path


HUGE = {
    "a text of 1 MB, 9,000 times": (long_text, "correct", 2),
    "the same as a label": (long_label, "correct --label-column given_label", 2),
    "the same to learn from": (long_text, "fit", 2),
    "400 million rows": (many_rows, "correct", 2),
    "a row of 120 million numbers": (huge_list, "correct", 2),
    "80 pictures of 64 million pixels": (bombs, "fit", 2),
    "600 MB of texts of 60 kB (honest)": (honest_long_rows, "correct", 0),
    "20,000 columns (honest)": (wide, "correct", 0),
}


@pytest.mark.parametrize("name", HUGE)
def test_small_files_do_not_fill_memory(name, tmp_path, record):
    make, words, code = HUGE[name]
    path = make(tmp_path / ("in" if make is bombs else "in.parquet"))
    size = sum(f.stat().st_size for f in [path, *path.rglob("*")] if f.is_file())
    command, *flags = words.split()
    out = ["--run-dir", tmp_path / "run"] if command == "fit" else ["--output", tmp_path / "o.pq"]
    call = [sys.executable, "-c", MEASURED, sys.executable, "-m", "adacorr", command, path]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*map(str, call), *map(str, flags), *map(str, out), "--quiet"],
        capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    head, _, said = done.stdout.partition("\n")
    returned, peak = map(int, head.split())
    assert returned == code, said
    assert len(said.strip().splitlines()) == (1 if code else 0), said
    assert peak < PEAK_MB
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    record(
        "huge",
        **{name: {"bytes": size, "peak_mb": peak, "cpu_seconds": round(seconds), "code": code}},
    )


@pytest.mark.parametrize("kind", ["dots", "lists", "tables", "many"])
def test_settings_do_not_fill_memory(kind, finished, tmp_path, record):
    text = {
        "dots": ".".join(["a"] * 50_000) + " = 1",
        "lists": "a = " + "[" * 100_000,
        "tables": "a = " + "{b=" * 30_000,
        "many": "\n".join(f"[k{i}]" for i in range(100_000)),
    }[kind]
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "manifest.json").unlink()
    (run / "config.toml").write_text(text)
    call = [sys.executable, "-c", MEASURED, sys.executable, "-m", "adacorr", "report", str(run)]
    done = subprocess.run(call, capture_output=True, text=True, check=True, timeout=PATIENCE)
    head, _, said = done.stdout.partition("\n")
    returned, peak = map(int, head.split())
    assert returned == 2
    assert len(said.strip().splitlines()) == 1, said
    assert peak < 400
    shown = {"bytes": len(text), "peak_mb": peak, "code": 2}
    record("huge", **{f"settings: {kind}": shown})


# -- kills between names ---------------------------------------------------------------------------


def test_locks_of_dead_owners_are_free_at_once(adacorr, tmp_path, record):
    """SIGKILL of a fit that has data workers, then the same run again, without a pause."""
    from PIL import Image

    folder, rng = tmp_path / "pictures", np.random.default_rng(0)
    for i in range(60):
        (folder / str(i % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(
            folder / str(i % 2) / f"{i}.png"
        )
    code = (
        "import sys\nimport adacorr.data.load\n"
        "sys.modules['adacorr.data.load'].IN_MEMORY_BYTES = 0\n"
        "from adacorr.cli import main\nmain(sys.argv[1:])\n"
    )
    run = tmp_path / "run"
    words = ["fit", str(folder), "--epochs", "2000", "--net", "mlp", "--workers", "2", "--quiet"]
    kills = 0
    process = subprocess.Popen([sys.executable, "-c", code, *words, "--run-dir", str(run)])
    for _ in range(5):
        for _ in range(3000):
            if len(psutil.Process(process.pid).children()) >= 2 and (run / "config.toml").exists():
                break
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
        process.wait()
        kills += 1
        again = [sys.executable, "-c", LOCKED, str(run)]
        done = subprocess.run(again, capture_output=True, text=True, check=False)
        assert done.stdout == "locked\n", done.stderr
        process = subprocess.Popen([sys.executable, "-c", code, "fit", "--resume", str(run)])
    process.kill()
    process.wait()
    record("kills", locks_free_at_once=kills)


LOCKED = """
import sys
from pathlib import Path
from adacorr.train.state import locked
with locked(Path(sys.argv[1])):
    print("locked")
"""
