"""Ten thousand malformed inputs: never a traceback, a hang or a memory blow-up.

Each input is a sound one with bytes changed, cut, inserted, repeated or replaced by words that
parsers dislike. A command either still takes it (a changed digit can be a sound table) or refuses
it with exit code 2 and one line; only refusals count as malformed.
"""

from __future__ import annotations

import faulthandler
import gzip
import io
import json
import pickle
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from adacorr.cli.correct import RuleOptions, correct
from adacorr.cli.export import export
from adacorr.cli.fit import fit
from adacorr.cli.import_ import import_
from adacorr.cli.options import Printing
from adacorr.cli.predict import predict
from adacorr.cli.report import report
from adacorr.cli.review import review
from adacorr.cli.table_options import TableOptions

MALFORMED = {
    "csv": 1700, "parquet": 1700, "npy": 1300, "npz": 1300, "toml": 1300, "run": 1500, "http": 1200,
    "answers": 600,
}  # fmt: skip
TRIES = 5  # times as many inputs at most, until so many of them are malformed
SECONDS = 300  # for one input, on the wall: far above what any needs on a busy machine
WAIT = 0.5  # for an answer, before the other half of a request is given up
MEGABYTES = 700  # that the whole process may grow by, over all inputs of a kind
WORDS = [
    b"nan", b"-1", b"1e309", b"inf", b"1e-320", b"99999999999999999999", b"\x00", b'"', b",",
    b"\n", b"\r\n", b"\xff\xfe", b"\xc3\x28", b"\xef\xbb\xbf", b"[" * 500, b"{" * 500, b"'''",
    b"=", b"\t", b"true", b"..", b"/etc/passwd", b"A" * 70_000, b"\x80\x04\x95", b"PK\x03\x04",
]  # fmt: skip
VALUES = [
    b"5", b"-1", b'"x"', b"[1]", b"[]", b"true", b"{a = 1}", b"nan", b"1e400", b"0.5",
    b'"no.such:net"',
    b"[[1, 2], [3]]", b"1979-05-27", b'""', b"99999999999",
]  # fmt: skip
KINDS = ("set", "cut", "insert", "delete", "repeat", "word")
ENTRIES = ("line", "value", "value")  # for text of one entry per line: it stays well-formed
Change = Callable[[bytes], bytes]


def some_changes(kinds: tuple[str, ...]) -> st.SearchStrategy:
    change = st.tuples(
        st.sampled_from(kinds),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=6),
        st.integers(0, len(WORDS) - 1),
    )
    return st.lists(change, min_size=1, max_size=8)


changes = st.one_of(some_changes(KINDS), some_changes(ENTRIES).map(lambda found: found[:3]))


def mutate(raw: bytes, todo: list[tuple[str, float, bytes, int]]) -> bytes:
    out = bytearray(raw)
    for kind, where, some, word in todo:
        at = int(where * len(out))
        if kind == "set":
            out[at : at + len(some)] = some
        elif kind == "cut":
            del out[at:]
        elif kind == "insert":
            out[at:at] = some
        elif kind == "delete":
            del out[at : at + 4 * len(some)]
        elif kind in ENTRIES:
            lines = out.split(b"\n")
            place = int(where * len(lines))
            name, equals, _ = lines[place].partition(b"=")
            value = VALUES[word % len(VALUES)]
            lines[place : place + 1] = [name + equals + value] if kind == "value" and equals else []
            out = bytearray(b"\n".join(lines))
        elif kind == "repeat":
            out[at:at] = bytes(out[at : at + 40]) * len(some)
        else:
            out[at : at + len(WORDS[word]) % 7] = WORDS[word]
    return bytes(out)


class Hang(BaseException):
    """Nothing catches it but the test."""


@contextmanager
def guarded() -> Iterator[None]:
    """Ends a command that takes too long, even one that never comes back from C."""

    def ring(number: int, frame: Any) -> None:
        raise Hang(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    faulthandler.dump_traceback_later(4 * SECONDS, exit=True)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.fixture
def fuzz(in_process, record, tmp_path) -> Callable[..., None]:
    """Try a kind of input until enough of it is malformed, and record what came of it."""

    def run(kind: str, choices: st.SearchStrategy, attempt: Callable[..., Any]) -> None:
        counts: Counter[str] = Counter()
        in_process("fit", "digits", "--run-dir", tmp_path / "warm", *LOADED)  # imports
        began = peak_mb()

        @settings(
            max_examples=TRIES * MALFORMED[kind],
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(choices, changes, st.integers(0, 2**32))
        def trial(choice: Any, todo: list[tuple[str, float, bytes, int]], salt: int) -> None:
            if counts["refused"] == MALFORMED[kind]:
                return
            words = attempt(choice, lambda raw: mutate(raw, todo))
            with guarded():
                done = in_process(*(words if isinstance(words, list) else [words]))
            assert done.code in (0, 2), done
            if done.code == 2:
                line = done.one_line()
                assert len(line) < 3000, line
                counts["accepted" if "no_such_net" in line else "refused"] += 1
            else:
                counts["accepted"] += 1
            assert peak_mb() - began < MEGABYTES, f"memory grew to {peak_mb():.0f} MB"

        trial()
        record("fuzz", **{kind: {**counts, "peak_growth_mb": round(peak_mb() - began)}})
        assert counts["refused"] == MALFORMED[kind]

    return run


def table(n: int = 30) -> pa.Table:
    rng = np.random.default_rng(0)
    f = rng.dirichlet(np.ones(3), n).round(4)
    columns = {f"p_{j}": f[:, j] for j in range(3)}
    return pa.table({"label": [str(c) for c in f.argmax(axis=1)], "text": ["a b"] * n, **columns})


def csv_bytes() -> bytes:
    out = io.BytesIO()
    pyarrow.csv.write_csv(table(), out)
    return out.getvalue()


def parquet_bytes(**options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table(), out, **options)
    return out.getvalue()


def npy_bytes(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def npz_bytes(save: Callable[..., None] = np.savez) -> bytes:
    out = io.BytesIO()
    save(out, features=np.random.default_rng(0).random((20, 3)), labels=np.arange(20) % 2)
    return out.getvalue()


HALF = RuleOptions(delta="0.5")
NO_NET = "no_such_net"  # ends a fit right after the data is accepted
LOADED = ("--net", NO_NET, "--quiet")


def test_csv(fuzz, tmp_path):
    raw, path = csv_bytes(), tmp_path / "a.csv"

    def attempt(choice: str, change: Change) -> Any:
        if choice == "gzip":
            packed = tmp_path / "a.csv.gz"
            packed.write_bytes(change(gzip.compress(raw)))
            return partial(correct, str(packed), rule=HALF, dry_run=True)
        path.write_bytes(change(raw))
        if choice == "fit":
            return partial(fit, str(path), run_dir=tmp_path / "run", net=NO_NET)
        return partial(correct, str(path), rule=HALF, dry_run=True)

    fuzz("csv", st.sampled_from(["plain", "plain", "gzip", "fit"]), attempt)


def test_parquet(fuzz, tmp_path):
    forms = [parquet_bytes(), parquet_bytes(compression="none", use_dictionary=False)]
    path = tmp_path / "a.parquet"

    def attempt(choice: tuple[int, str], change: Change) -> Any:
        path.write_bytes(change(forms[choice[0]]))
        if choice[1] == "fit":
            return partial(fit, str(path), run_dir=tmp_path / "run", net=NO_NET)
        return partial(correct, str(path), rule=HALF, output=str(tmp_path / "out.parquet"))

    fuzz("parquet", st.tuples(st.integers(0, 1), st.sampled_from(["fit", "correct"])), attempt)


def test_npy(fuzz, tmp_path):
    f = np.random.default_rng(0).dirichlet(np.ones(3), 20).astype(np.float32)
    sound = {"labels": npy_bytes(f.argmax(axis=1)), "probs": npy_bytes(f)}
    files = {name: tmp_path / f"{name}.npy" for name in sound}
    odd = [
        npy_bytes(np.array([{}, 1, None], dtype=object)),
        npy_bytes(np.zeros((2, 2), "c16")),
        npy_bytes(np.zeros(3, dtype=[("a", "i4"), ("b", "f8")])),
        pickle.dumps(f),
    ]

    def attempt(choice: tuple[str, int], change: Change) -> Any:
        broken, which = choice
        for name, raw in sound.items():
            files[name].write_bytes(raw)
        raw = sound[broken] if which >= len(odd) else odd[which]
        files[broken].write_bytes(change(raw[:90]) + raw[90:])  # the header is what can be wrong
        table = TableOptions(labels=files["labels"], probs=(files["probs"],))
        return partial(correct, table=table, rule=HALF, dry_run=True)

    choice = st.tuples(st.sampled_from(list(sound)), st.integers(0, 15))
    fuzz("npy", choice, attempt)


def test_npz(fuzz, tmp_path):
    forms = [npz_bytes(), npz_bytes(np.savez_compressed)]
    path = tmp_path / "a.npz"

    def attempt(choice: int, change: Change) -> Any:
        path.write_bytes(change(forms[choice]))
        return partial(fit, str(path), run_dir=tmp_path / "run", net=NO_NET)

    fuzz("npz", st.integers(0, 1), attempt)


SETTINGS = b"""
[correct]
delta = "0.5"
label-column = "label"
normalize = true
max-flip-error = 0.1
[fit]
seed = 1
epochs = 3
method = "adacorr"
set = ["burn_in=5"]
noise = "uniform:0.4"
"""
GRID = b"""
name = "tiny"
datasets = ["digits"]
noise = ["uniform:0.4", "pair:0.3"]
methods = ["standard", "mine"]
seeds = [1, 2]
[train]
epochs = 2
net = "mlp"
[dataset.digits]
subset = 300
[method.mine]
method = "adacorr"
burn_in = 3
[[extra]]
noise = ["none"]
methods = ["standard"]
"""


def test_toml(fuzz, tmp_path):
    path, source = tmp_path / "a.toml", tmp_path / "a.csv"
    source.write_bytes(csv_bytes())

    def attempt(choice: str, change: Change) -> Any:
        path.write_bytes(change(GRID if choice == "grid" else SETTINGS))
        if choice == "grid":
            return ["bench", "run", path, "--dry-run", "--output", tmp_path / "r.jsonl"]
        if choice == "fit":
            return ["--config", path, "fit", source, *LOADED, "--run-dir", tmp_path / "run"]
        return ["--config", path, "correct", source, "--dry-run"]

    fuzz("toml", st.sampled_from(["grid", "grid", "correct", "fit"]), attempt)


def test_run_directories(fuzz, make_run, adacorr, tmp_path):
    by_hand = make_run(epochs=3, n=60).path
    trained = tmp_path / "trained"
    done = adacorr("fit", "digits", "--subset", 100, "--epochs", 2, "--net", "mlp",
                   "--run-dir", trained)  # fmt: skip
    assert done.code == 0, done.err
    run = tmp_path / "broken"
    out = tmp_path / "out"
    out.mkdir()
    commands = {
        "cleanlab": partial(export, run, to="cleanlab", output=out / "a.csv"),
        "label-studio": partial(export, run, to="label-studio", output=out / "b.csv"),
        "review": partial(review, run, export=out / "c.parquet"),
        "report": partial(report, run, output=out / "d.html"),
        "predict": partial(predict, run, "digits", output=out / "e.npy"),
        "resume": partial(fit, resume=run, printing=Printing(quiet=True)),
    }
    read = ["config.toml", "labels.parquet", "labels.parquet", "pred_probs.npy", "metrics.jsonl"]
    state = ["state.json", "tensors.safetensors", "manifest.json"]
    files = {
        **dict.fromkeys(["cleanlab", "label-studio", "review", "report"], read),
        "predict": ["config.toml", "model.safetensors", "model.safetensors"],
        "resume": ["config.toml", *(f"checkpoint/epoch-000002/{name}" for name in state)],
    }
    pairs = [(command, file) for command, names in files.items() for file in names]
    some = st.sampled_from([pair for pair in pairs for _ in range(1 if pair[0] == "report" else 3)])

    def attempt(choice: tuple[str, str], change: Change) -> Any:
        command, name = choice
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(trained if command in ("predict", "resume") else by_hand, run)
        shutil.rmtree(run / "checkpoint" / "epoch-000001", ignore_errors=True)
        (run / name).write_bytes(change((run / name).read_bytes()))
        return commands[command]

    fuzz("run", some, attempt)


def test_answers(fuzz, make_run, tmp_path):
    """Files of other tools with answers of people."""
    run = make_run(n=60).path
    names = tomllib.loads((run / "config.toml").read_text())["data"]["class_names"]
    tasks = [
        {
            "data": {"adacorr_row": row, "text": "x"},
            "annotations": [{"result": [{"type": "choices", "value": {"choices": [names[0]]}}]}],
            "responses": {"label": [{"value": names[0], "status": "submitted"}]},
        }
        for row in range(12)
    ]
    records = [{"adacorr_row": i, "label": names[0]} for i in range(12)]
    flat = "".join(f"{i},['{names[0]}'],['submitted']\n" for i in range(12))
    forms = {
        "a.json": json.dumps(tasks, indent=1).encode(),
        "b.jsonl": "\n".join(map(json.dumps, records)).encode(),
        "c.csv": f"adacorr_row,label.responses,label.responses.status\n{flat}".encode(),
    }

    def attempt(name: str, change: Change) -> Any:
        path = tmp_path / name
        path.write_bytes(change(forms[name]))
        (run / "answers.csv").unlink(missing_ok=True)
        return partial(import_, run, path)

    fuzz("answers", st.sampled_from(list(forms)), attempt)


# -- HTTP ------------------------------------------------------------------------------------------


@pytest.fixture
def server(make_run, tmp_path) -> Iterator[tuple[int, str, subprocess.Popen, Path]]:
    said = tmp_path / "server.log"
    command = [sys.executable, "-m", "adacorr", "review", str(make_run().path), "--no-browser"]
    with open(said, "w") as log:
        process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    found = re.search(rb":(\d+)(/\S+)", process.stdout.readline())
    assert found is not None
    yield int(found[1]), found[2].decode(), process, said
    process.kill()
    process.wait()
    process.stdout.close()


def ask(port: int, raw: bytes, wait: float = SECONDS) -> bytes:
    """What the server answers; empty when it hangs up, or waits for more until we hang up."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as s:
        try:
            s.sendall(raw)
            if not select.select([s], [], [], wait)[0]:
                s.shutdown(socket.SHUT_WR)
            while piece := s.recv(1 << 16):
                answer += piece
                if not select.select([s], [], [], wait)[0]:
                    break  # answered, and the connection kept for more
        except ConnectionError:
            pass
    return answer


def peak_mb_of(process: subprocess.Popen) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # pyright: ignore


def test_http(server, record):
    port, entrance, process, said = server
    host = f"Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nConnection: close\r\n"
    page = ask(port, f"GET {entrance} HTTP/1.1\r\n{host}\r\n".encode())
    cookies = re.findall(rb"set-cookie: ([^;]+)", page)
    assert cookies, page[:300]
    host += f"Cookie: {b'; '.join(cookies).decode()}\r\n"
    page = ask(port, f"GET / HTTP/1.1\r\n{host}\r\n".encode())
    found = re.search(rb'name="adacorr-run" content="(\w+)"', page)
    assert found is not None, page[:300]
    api = f"/api/{found[1].decode()}"
    body = json.dumps({"reviewer": "Ann", "decisions": [{"flip": 0, "choice": "skip", "seen": 0}]})
    sends = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    sound = [
        f"GET {api}/queue?client=a&limit=3&order=doubtful HTTP/1.1\r\n{host}\r\n",
        f"GET {api}/fields/3 HTTP/1.1\r\n{host}\r\n",
        f"POST {api}/decide HTTP/1.1\r\n{host}{sends}",
        f"POST {api}/undo HTTP/1.1\r\n{host}{sends}",
    ]
    counts: Counter[str] = Counter()
    began = peak_mb_of(process)

    @settings(
        max_examples=TRIES * MALFORMED["http"], derandomize=True, database=None, deadline=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.integers(0, len(sound) - 1), changes, st.booleans())
    def trial(which: int, todo: list[tuple[str, float, bytes, int]], only_body: bool) -> None:
        if counts["refused"] == MALFORMED["http"]:
            return
        raw = sound[which].encode()
        head, gap, rest = raw.partition(b"\r\n\r\n")
        if only_body and rest:  # a well-formed request around a malformed body
            changed = mutate(rest, todo)
            head = re.sub(rb"Length: \d+", b"Length: %d" % len(changed), head)
            raw = head + gap + changed
        else:
            raw = mutate(raw, todo)
        with guarded():
            answer = ask(port, raw, WAIT)
        status = int(answer[9:12]) if answer[:5] == b"HTTP/" else 0
        assert status < 500, answer[:300]
        kind = "accepted" if 200 <= status < 400 else "refused"
        counts[kind] += 1
        if status == 0:
            counts["hung up on"] += 1

    trial()
    assert ask(port, f"GET /api/run HTTP/1.1\r\n{host}\r\n".encode()).startswith(b"HTTP/1.1 200")
    assert process.poll() is None
    assert "Traceback" not in said.read_text()
    peak = peak_mb_of(process)
    assert peak < MEGABYTES
    record("fuzz", http={**counts, "peak_growth_mb": round(peak - began)})
    assert counts["refused"] == MALFORMED["http"]


# -- files made to harm ----------------------------------------------------------------------------


class Evil:
    """A pickle that would leave a file behind if anything ever loaded it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def zip_bomb(path: Path, gigabytes: int) -> None:
    """An .npz whose `features` unpack to gigabytes of zeros."""
    header = io.BytesIO()
    shape = (gigabytes << 18, 1 << 9)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    zeros = bytes(1 << 24)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("features.npy", "w", force_zip64=True) as member:
            member.write(header.getvalue())
            for _ in range(gigabytes << 6):
                member.write(zeros)
        archive.writestr("labels.npy", npy_bytes(np.arange(shape[0]) % 2))


def gzip_bomb(path: Path, first: bytes, gigabytes: int) -> None:
    block = b"0" * (1 << 24)
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write(first)
        for _ in range(gigabytes << 6):
            out.write(block)


def test_pickles_and_bombs_are_refused(in_process, make_run, tmp_path, record):
    import torch

    mark = tmp_path / "mark"
    evil = Evil(mark)
    run = make_run().path
    np.save(tmp_path / "l.npy", np.array([0, 1]))
    np.save(tmp_path / "object.npy", np.array([evil, evil], dtype=object), allow_pickle=True)
    (tmp_path / "plain.npy").write_bytes(pickle.dumps(evil))
    np.savez(tmp_path / "object.npz", features=np.array([evil, evil]), labels=np.arange(2))
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(evil))
    torch.save({"a": evil}, tmp_path / "model.pt")
    (tmp_path / "torch.npz").write_bytes((tmp_path / "model.pt").read_bytes())
    (run / "model.safetensors").write_bytes((tmp_path / "model.pt").read_bytes())
    (tmp_path / "pickle.parquet").write_bytes(pickle.dumps(evil))
    zip_bomb(tmp_path / "bomb.npz", 4)
    gzip_bomb(tmp_path / "line.csv.gz", b"", 4)
    gzip_bomb(tmp_path / "cell.csv.gz", b"label,p_0,p_1\n0,0.5,0.5\n1,", 4)
    # members of one gzip file follow each other: 4 GB of rows
    rows = [gzip.compress(b"x,label\n"), *1024 * [gzip.compress(b"0,1\n" * (1 << 20))]]
    (tmp_path / "rows.csv.gz").write_bytes(b"".join(rows))
    dry = ["correct", "--dry-run", "--delta", "0.5"]
    new = ["fit", "--run-dir", tmp_path / "new", *LOADED]
    cases = [
        [*dry, "--labels", tmp_path / "l.npy", "--probs", tmp_path / "object.npy"],
        [*dry, "--labels", tmp_path / "plain.npy", "--probs", tmp_path / "l.npy"],
        [*dry, "--labels", tmp_path / "object.npz", "--probs", tmp_path / "l.npy"],
        [*dry, "--labels", tmp_path / "l.npy", "--probs", tmp_path / "bomb.npz"],
        [*dry, tmp_path / "pickle.parquet"],
        [*dry, tmp_path / "line.csv.gz"],
        [*dry, tmp_path / "cell.csv.gz"],
        [*new, tmp_path / "object.npz"],
        [*new, tmp_path / "pickle.npz"],
        [*new, tmp_path / "torch.npz"],
        [*new, tmp_path / "bomb.npz"],
        [*new, tmp_path / "line.csv.gz", "--label-column", "0"],
        [*new, tmp_path / "cell.csv.gz"],
        [*new, tmp_path / "rows.csv.gz"],
        ["predict", run, "digits", "--output", tmp_path / "out.npy"],
    ]
    began = peak_mb()
    for argv in cases:
        with guarded():
            done = in_process(*argv)
        line = done.one_line()
        assert "no_such_net" not in line, argv
        assert peak_mb() - began < MEGABYTES, argv
    assert not mark.exists()
    record("fuzz", refused_pickles_and_bombs=len(cases), harmful_peak_mb=round(peak_mb() - began))
