"""The data sets of the paper and their files."""
