"""The paper's theory as functions, and its experiments."""
