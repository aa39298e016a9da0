"""The paper's networks and small ones, and a factory that picks one by input shape."""
