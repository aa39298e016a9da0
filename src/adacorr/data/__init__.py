"""Named datasets, image folders, tables and arrays -> one Dataset type. Needs no torch."""
