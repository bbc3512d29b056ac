"""The families of published models that regard reads and writes: one file each, one table each.

What is unusual: nothing here runs but to read a configuration. A family joins by a file with its `Family` and a line
in FAMILIES; no other code knows its name.
"""

from __future__ import annotations

from regard.hub.families.bart import BART
from regard.hub.families.bert import BERT
from regard.hub.families.distilbert import DISTILBERT
from regard.hub.families.gpt2 import GPT2
from regard.hub.families.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from regard.hub.families.marian import MARIAN
from regard.hub.families.neox import NEOX
from regard.hub.families.pegasus import PEGASUS
from regard.hub.families.roberta import ROBERTA
from regard.hub.families.t5 import T5
from regard.hub.keymap import Family

FAMILIES: tuple[Family, ...] = (
    GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, NEOX, BERT, ROBERTA, DISTILBERT, MARIAN, PEGASUS, BART, T5,
)  # fmt: skip
"""All of them, in the order of the support table."""
