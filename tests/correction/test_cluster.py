"""A real cluster of two worker processes gives the result of one machine, also when one dies."""

import os
import signal
import subprocess
import sys
from multiprocessing import active_children
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster
from tests.core.test_annotators import people

from adacorr import correct
from adacorr.core.validation import InputError
from adacorr.correction import Request, TableSettings, correct_table
from adacorr.correction.cluster import connect
from adacorr.correction.questions import ask_table

FILES = 12


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def folder(problem, tmp_path):
    y, f, names = problem
    probs = pa.FixedSizeListArray.from_arrays(pa.array(f.ravel()), 4)
    table = pa.table({"id": range(len(y)), "label": names[y], "pred_probs": probs})
    (tmp_path / "in").mkdir()
    for i in range(FILES):
        pq.write_table(table.slice(i * 250, 250), tmp_path / "in" / f"{i:02d}.parquet")
    return tmp_path / "in", Request(classes=names.tolist())


def contents(folder):
    return {path.name: pq.read_table(path) for path in sorted(folder.iterdir())}


def assert_same_result(here, there, one, other):
    assert there.stats.rows == here.stats.rows
    assert there.stats.flipped == here.stats.flipped
    assert there.stats.pairs == here.stats.pairs
    for name in ("expected_wrong_flips", "expected_missed_errors"):
        assert getattr(there.stats, name) == pytest.approx(getattr(here.stats, name), abs=1e-9)
    assert (there.noise_rate, there.summary) == (here.noise_rate, here.summary)
    files = contents(other)
    assert files.keys() == contents(one).keys()
    assert all(files[name].equals(table) for name, table in contents(one).items())
    ids = pa.concat_tables(files.values())["id"].to_pylist()
    assert ids == list(range(here.stats.rows))


def test_answers_lead_to_the_same_decisions_on_a_cluster(client, folder, tmp_path):
    source, columns = folder
    asked = ask_table(source, 60, columns=columns)
    assert ask_table(source, 60, columns=columns, client=client).fields == asked.fields
    rows = asked.rows
    settings = TableSettings(
        verified={int(row): "cat" if row % 3 else "cannot tell" for row in rows}
    )
    options = {"columns": columns, "settings": settings}
    here = correct_table(source, tmp_path / "here", **options)
    there = correct_table(source, tmp_path / "there", client=client, **options)
    assert_same_result(here, there, tmp_path / "here", tmp_path / "there")
    assert there.certificate is not None
    assert there.certificate == here.certificate
    assert there.certificate.counted == 60


def test_annotators_and_models_on_a_cluster(client, tmp_path):
    _, codes, f = people(n=900, qualities=(0.9, 0.7, 0.5))
    models = [f, 0.5 * f + 0.125]
    table = pa.table(
        {"id": range(len(codes))}
        | {f"said_{j}": pa.array(codes[:, j], mask=codes[:, j] < 0) for j in range(3)}
        | {f"p{m}_{c}": one[:, c] for m, one in enumerate(models) for c in range(4)}
    )
    (tmp_path / "in").mkdir()
    for i in range(3):
        pq.write_table(table.slice(300 * i, 300), tmp_path / "in" / f"{i}.parquet")
    columns = Request(label_column="said_*", class_columns=["p0_*", "p1_*"])
    here = correct_table(tmp_path / "in", tmp_path / "here", columns=columns)
    there = correct_table(tmp_path / "in", tmp_path / "there", columns=columns, client=client)
    assert_same_result(here, there, tmp_path / "here", tmp_path / "there")
    assert [p.quality for p in there.annotators] == pytest.approx(
        [p.quality for p in here.annotators]
    )
    labels = pa.concat_tables(contents(tmp_path / "there").values())["adacorr_label"]
    assert labels.to_pylist() == correct(codes, models).labels.tolist()


def test_the_result_is_that_of_one_machine_also_when_a_worker_dies(client, folder, tmp_path):
    source, columns = folder
    here = correct_table(source, tmp_path / "here", columns=columns, batch_rows=100)
    calm = []

    def note(stage, rows, total):
        calm.append((stage, rows, total))

    options = {"columns": columns, "batch_rows": 100, "client": client}
    there = correct_table(f"{source}/*.parquet", tmp_path / "there", progress=note, **options)
    assert_same_result(here, there, tmp_path / "here", tmp_path / "there")
    assert sorted(calm) == sorted(
        [(stage, 250, 3000) for stage in ("checking", "correcting")] * FILES
    )

    killed = []

    def kill(stage, rows, total):
        if stage == "correcting" and not killed:
            killed.append(client.run(os.getpid).popitem()[1])
            os.kill(killed[0], signal.SIGKILL)

    again = correct_table(source, tmp_path / "again", progress=kill, **options)
    assert killed
    assert_same_result(here, again, tmp_path / "here", tmp_path / "again")
    assert {path.name for path in tmp_path.iterdir()} == {"in", "here", "there", "again"}


def test_errors_of_workers_are_one_line_and_leave_nothing(client, folder, tmp_path):
    source, columns = folder
    bad = pq.read_table(source / "07.parquet")
    bad = bad.set_column(1, "label", pa.array([*["cat"] * 200, *["moth"] * 50]))
    pq.write_table(bad, source / "07.parquet")
    with pytest.raises(InputError, match=r"07.parquet: .*'moth'.* in row 200 ") as caught:
        correct_table(source, tmp_path / "out", columns=columns, client=client)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    with pytest.raises(InputError, match="--engine dask: expected --output alone"):
        correct_table(source, columns=columns, client=client, run_dir=tmp_path / "run")


def test_csv_files_are_counted_first(client, tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(3):
        rows = "a,0.9,0.1\nb,0.9,0.1\n" * (i + 1)
        (tmp_path / "in" / f"{i}.csv").write_text("label,p_a,p_b\n" + rows)
    pattern, settings = f"{tmp_path}/in/*.csv", TableSettings(0.5)
    result = correct_table(pattern, tmp_path / "out", settings=settings, client=client)
    assert (result.stats.rows, result.stats.flipped) == (12, 6)
    lines = (tmp_path / "out" / "2.csv").read_text().splitlines()
    assert len(lines) == 7
    assert lines[2].startswith("b,0.9,0.1,a,")


def test_a_scheduler_that_dies_is_one_line_and_leaves_nothing(folder, tmp_path):
    source, columns = folder
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    place = tmp_path / "scheduler.json"
    at = ["--scheduler-file", str(place)]
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *at], **quiet
    )
    worker = subprocess.Popen(
        [*dask, "worker", "--nthreads", "1", "--no-dashboard", "--no-nanny", *at], **quiet
    )

    def kill(stage, rows, total):
        scheduler.kill()

    try:
        with Client(scheduler_file=str(place), timeout=60) as client:
            client.wait_for_workers(1, timeout=60)
            with pytest.raises(InputError, match="cluster: expected a scheduler that lives, got:"):
                correct_table(
                    source, tmp_path / "out", columns=columns, client=client, progress=kill
                )
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert {path.name for path in tmp_path.iterdir()} <= {"in", "scheduler.json"}


def test_a_cluster_of_our_own_takes_no_work_from_others():
    """Whoever reaches a scheduler's port has it run code; this machine has other users."""

    def listening():
        own = psutil.Process()
        return {
            connection.laddr
            for process in (own, *own.children(recursive=True))
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }

    others = listening()
    with connect(None) as client:
        assert client.submit(os.getpid).result() != os.getpid()
        ports = listening() - others
        assert {ip for ip, _ in ports} <= {"127.0.0.1"}
        for _, port in ports:
            for path in ("/", "/status", "/json/identity.json", "/metrics", "/proxy/80/host/"):
                with pytest.raises(HTTPError, match="404"):  # a web server, and nothing on it
                    urlopen(f"http://127.0.0.1:{port}{path}", timeout=10)


def test_a_process_of_our_own_cluster_that_dies_is_one_line(folder, tmp_path):
    source, columns = folder
    out, others = tmp_path / "out", set(active_children())

    def kill(_pass, _done, _total):
        for child in set(active_children()) - others:
            child.kill()

    with (
        connect(None) as client,
        pytest.raises(InputError, match="cluster: expected workers that live, got:"),
    ):
        correct_table(source, out, columns=columns, client=client, progress=kill)
    assert not out.exists()
