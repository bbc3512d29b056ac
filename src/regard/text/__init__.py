"""Text to numbers and back: the tokenizer. Knows no model and no data file."""

from regard.text.tokenizer import Kind, Tokenizer

__all__ = ["Kind", "Tokenizer"]
