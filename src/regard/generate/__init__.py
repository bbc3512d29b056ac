"""Search and sampling: they drive anything with start, decode and reorder. They know token ids, not text."""

from regard.generate.beam import Hypothesis, beam_search
from regard.generate.constraints import Constraint, Phrase

__all__ = ["Constraint", "Hypothesis", "Phrase", "beam_search"]
