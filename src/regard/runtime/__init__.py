"""The same Model, made fast on the machine at hand. It knows models and machines, no text and no files."""

from regard.runtime.choice import Ways, measured_ways
from regard.runtime.fast import furnish, make_fast, narrowed
from regard.runtime.host import keep_freed_memory, longest_open, open_attention_until
from regard.runtime.products import FORMS, Form
from regard.runtime.rows import absence

__all__ = [
    "FORMS",
    "Form",
    "Ways",
    "absence",
    "furnish",
    "keep_freed_memory",
    "longest_open",
    "make_fast",
    "measured_ways",
    "narrowed",
    "open_attention_until",
]
