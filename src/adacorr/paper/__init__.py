"""For researchers: the theory of the paper, its experiments and its tables."""
