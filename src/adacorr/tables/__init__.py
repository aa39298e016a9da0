"""Labels and probabilities on disk: csv, parquet, npy; streaming; engines."""
