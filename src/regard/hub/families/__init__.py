"""The families of published models that regard reads and writes: one file each, one table each.

What is unusual: nothing here runs but to read a configuration. A family joins by a file with its `Family` and a line
in FAMILIES; no other code knows its name.
"""

from __future__ import annotations

from regard.hub.families.gpt2 import GPT2
from regard.hub.keymap import Family

FAMILIES: tuple[Family, ...] = (GPT2,)
"""All of them, in the order of the support table."""
