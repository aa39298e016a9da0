"""Two worker processes of a Dask cluster give what one process gives, also when one dies."""

import ast
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

import adacorr
from adacorr.cleaning.folds import Folds
from adacorr.cleaning.workers import Cluster, Here

LOOPBACK = "127.0.0.1:0"


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=LOOPBACK) as cluster,
        Client(cluster) as client,
    ):
        yield client


def assert_same(here, there):
    np.testing.assert_array_equal(here.pred_probs, there.pred_probs)
    np.testing.assert_array_equal(here.labels, there.labels)
    np.testing.assert_array_equal(here.suspicion, there.suspicion)
    assert here.issues.counts() == there.issues.counts()


def test_text(client, texts):
    made, given, _ = texts
    once = Folds(repeats=1)
    here = adacorr.clean(made, given, folds=once)
    assert_same(here, adacorr.clean(made, given, folds=once, engine=Cluster(client)))


def test_values(client):
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 2
    frame = pd.DataFrame({"x": rng.normal(size=300) + truth, "c": rng.choice(["a", "b"], 300)})
    once = Folds(repeats=1)
    here = adacorr.clean(frame, truth, folds=once)
    assert_same(here, adacorr.clean(frame, truth, folds=once, engine=Cluster(client)))


def test_photos(client, photos, tmp_path):
    once = Folds(repeats=1)
    here = adacorr.clean(photos, folds=once)
    there = adacorr.clean(photos, folds=once, run_dir=tmp_path / "run", engine=Cluster(client))
    np.testing.assert_allclose(here.pred_probs, there.pred_probs, atol=1e-5)
    np.testing.assert_array_equal(here.labels, there.labels)


def add(shared, item):
    return shared + item


def slowly(shared, item):
    time.sleep(0.05)
    return shared + item


def test_each_keeps_the_order_and_draws_items_as_they_are_needed(client):
    drawn = []

    def items():
        for i in range(40):
            drawn.append(i)
            yield i

    found = Cluster(client).each(add, 100, items())
    first = next(found)
    assert len(drawn) < 20
    assert [first, *found] == list(Here().each(add, 100, range(40)))


def test_a_worker_that_dies_loses_nothing(client):
    found = Cluster(client).each(slowly, 1, range(40))
    first = next(found)
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGKILL)
    assert [first, *found] == list(range(1, 41))


def test_one_thread_is_all_that_a_model_gets_the_first_one_too():
    """In a new process, where the libraries with threads are loaded by the model itself."""
    code = """
from adacorr.cleaning.workers import one_thread

def used():
    import scipy.linalg
    import sklearn.ensemble
    from threadpoolctl import threadpool_info
    return [pool["num_threads"] for pool in threadpool_info()]

print(one_thread(used)())
"""
    several = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=several, capture_output=True, text=True)
    threads = ast.literal_eval(done.stdout)
    assert threads
    assert set(threads) == {1}
