"""Search and sampling: they drive anything with start, decode and reorder. They know token ids, not text."""

from regard.generate.beam import Hypothesis, beam_search
from regard.generate.constraints import Constraint, Phrase
from regard.generate.sampling import Sampler
from regard.generate.stream import Finish, Prompt, Said, TokenStream, context

__all__ = [
    "Constraint",
    "Finish",
    "Hypothesis",
    "Phrase",
    "Prompt",
    "Said",
    "Sampler",
    "TokenStream",
    "beam_search",
    "context",
]
