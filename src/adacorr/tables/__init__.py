"""Labels and probabilities on disk: csv, parquet and npy, read in bounded memory."""
