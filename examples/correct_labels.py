"""Correct labels from predicted probabilities, and see what it is worth.

python examples/correct_labels.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import adacorr

X, truth = load_digits(return_X_y=True)
labels = adacorr.noise.inject(truth, adacorr.noise.pair(10, 0.3), rng=0)

# Any model will do, as long as it has not seen the label that it judges.
model = LogisticRegression(C=0.02, max_iter=500)
pred_probs = np.asarray(
    cross_val_predict(model, X / 16, labels, cv=5, method="predict_proba"),
)

result = adacorr.correct(labels, pred_probs)
print(f"right labels before: {np.mean(labels == truth):.1%}")
print(f"right labels after:  {np.mean(result.labels == truth):.1%}")
wrong = np.sum(result.labels[result.flipped] != truth[result.flipped])
print(f"labels changed: {result.n_flipped}, of these wrong: {wrong}")
print(f"expected wrong changes: {result.expected_wrong_flips:.0f}")

# Only the safe changes; the others are for a person to look at.
careful = adacorr.correct(labels, pred_probs, max_flip_error=0.05)
assert careful.to_review is not None
print(f"with max_flip_error=0.05: {careful.n_flipped} changed, {careful.to_review.sum()} to review")
