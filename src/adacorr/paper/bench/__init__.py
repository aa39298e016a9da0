"""The benchmark: a grid -> records (JSONL) -> tables, plots and tests of differences."""
