"""What besides its recipe bears on a run's figures: the machine, the versions of what computed, and the day.

What is unusual: it is written into every checkpoint, so that a result can be read without its author.
What it does not know: the run.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from regard import __version__
from regard.config import to_tree
from regard.machine import describe_machine

OF_THE_MOMENT = ("available_bytes", "disk_free_bytes", "torch", "python")
"""Fields of `Machine` that change from minute to minute, or are versions."""


def circumstances() -> dict[str, Any]:
    """{"machine": {"cpu", "cores", ...}, "versions": {"regard", "torch", ...}, "date": of the day in UTC}, for JSON."""
    machine = describe_machine()
    lasting = {name: value for name, value in to_tree(machine).items() if name not in OF_THE_MOMENT}
    versions = {"regard": __version__, "python": machine.python, "torch": machine.torch}
    versions["tokenizers"] = version("tokenizers")
    return {"machine": lasting, "versions": versions, "date": datetime.now(UTC).date().isoformat()}
