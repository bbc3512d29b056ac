"""The same Model, made fast on the machine at hand. It knows models and machines, no text and no files."""

from regard.runtime.choice import Way, measured_way
from regard.runtime.fast import furnish, make_fast, narrowed
from regard.runtime.host import keep_freed_memory, longest_open, open_attention_until
from regard.runtime.products import FORMS, Form, slower_here
from regard.runtime.rows import absence

__all__ = [
    "FORMS",
    "Form",
    "Way",
    "absence",
    "furnish",
    "keep_freed_memory",
    "longest_open",
    "make_fast",
    "measured_way",
    "narrowed",
    "open_attention_until",
    "slower_here",
]
