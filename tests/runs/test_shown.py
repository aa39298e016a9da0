"""A run directory in a notebook."""

import re

import numpy as np

import adacorr
from adacorr.runs import Run


def test_a_run_shows_its_suspects_and_its_note(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 400)
    given = adacorr.noise.inject(truth, adacorr.noise.uniform(3, 0.2), rng=1)
    f = rng.dirichlet(np.ones(3), 400) * 0.3
    f[np.arange(400), truth] += 0.7
    names = np.array(["<b>", "cat", "dog"])
    pq.write_table(
        pa.table({"label": names[given], "pred_probs": f.tolist()}), tmp_path / "table.parquet"
    )
    table = tmp_path / "table.parquet"
    adacorr.correct_table(table, run_dir=tmp_path / "run")
    page = Run.open(tmp_path / "run")._repr_html_()
    first = adacorr.correct(names[given], f).suspects(1)[0]
    assert re.findall(r"<tr><td [^>]*>(\d+)</td>", page)[0] == str(first.row)
    assert "of 400 labels changed" in page
    assert "<b>" not in page
    assert "100%" not in page
