"""regard: the Transformer, whole, in one readable package: train it, look inside it, serve it."""

__version__ = "0.1.0"
