"""Training with noisy labels; the only package that imports torch."""
