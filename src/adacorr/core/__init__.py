"""Pure functions on arrays: no torch, no files, no printing."""
