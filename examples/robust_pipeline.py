"""A scikit-learn pipeline that survives wrong training labels.

python examples/robust_pipeline.py
"""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adacorr import noise
from adacorr.estimators import CorrectedClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))

print("wrong labels   plain   corrected")
for rate in (0.0, 0.2, 0.4):
    given = noise.inject(y_train, noise.pair(10, rate), rng=0)
    plain = model.fit(X_train, given).score(X_test, y_test)
    corrected = CorrectedClassifier(model).fit(X_train, given).score(X_test, y_test)
    print(f"{rate:>12.0%}   {plain:.1%}   {corrected:.1%}")
