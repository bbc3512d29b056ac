"""Text to numbers and back: the tokenizer. Knows no model and no data file."""

from regard.text.tokenizer import Tokenizer
from regard.text.trainers import Kind

__all__ = ["Kind", "Tokenizer"]
