"""The same Model, made fast on the machine at hand. It knows models and machines, no text and no files."""

from regard.runtime.host import keep_freed_memory, longest_open, open_attention_until

__all__ = ["keep_freed_memory", "longest_open", "open_attention_until"]
