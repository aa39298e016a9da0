"""A run corrected again from its own files says what it said before."""

import numpy as np
import pytest

import adacorr
from adacorr.core.answers import Answers
from adacorr.core.validation import InputError
from adacorr.correction import TableSettings, correct_table
from adacorr.correction.rerun import RunInputs
from adacorr.runs.directory import Run
from adacorr.runs.reader import RunData


@pytest.fixture
def arrays(problem, tmp_path):
    labels, f, _ = problem
    np.save(tmp_path / "y.npy", labels)
    np.save(tmp_path / "f.npy", f)
    return labels, f, (tmp_path / "y.npy", tmp_path / "f.npy")


@pytest.mark.parametrize(
    "options",
    [{}, {"delta": 0.6}, {"max_flip_error": 0.1}, {"T": 0.1 + 0.6 * np.eye(4)}],
)
def test_the_settings_of_the_run_are_used_again(arrays, tmp_path, options):
    labels, f, files = arrays
    correct_table(files, None, settings=TableSettings(**options), run_dir=tmp_path / "run")
    inputs = RunInputs.of(RunData.open(Run.open(tmp_path / "run")))
    again = inputs.correct(Answers.of([], []))
    once = adacorr.correct(labels, f, **options)
    np.testing.assert_array_equal(again.labels, once.labels)
    assert again.noise_rate == once.noise_rate
    said = Answers.of([3, 5, 9], [0, 1, 2])
    answered = inputs.correct(said)
    assert answered.labels[[3, 5, 9]].tolist() == [0, 1, 2]
    assert answered.certificate is not None


def test_without_probabilities_there_is_nothing_to_correct_from(make_run):
    with pytest.raises(InputError, match=r"pred_probs\.npy: expected probabilities of the run"):
        RunInputs.of(RunData.open(make_run(probs=False)))
