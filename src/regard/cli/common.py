"""The flags that every verb which computes has, and what they set.

What it is: the bases of the verbs' `Arguments`.
What is unusual: a flag beats the environment, and that beats the default; torch itself reads OMP_NUM_THREADS and
CUDA_VISIBLE_DEVICES.
What it does not know: the verbs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class Common:
    """Flags of every verb; a verb's `Arguments` derives from it, and calls `apply` before it computes."""

    json: bool = False
    """Write JSON on stdout, for programs."""
    quiet: bool = False
    """Show no progress."""
    device: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """cpu, cuda, cuda:1 or mps; else $REGARD_DEVICE, else the quickest there is."""
    threads: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Threads to compute with; else $OMP_NUM_THREADS, else one for each core."""
    seed: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Seed of everything drawn at random, from 0 to 2^63 - 1."""

    def __post_init__(self) -> None:
        if self.seed is not None:
            from regard import machine

            machine.check_seed(self.seed)

    def apply(self) -> torch.device:
        """Set threads and seed, and return the device. Raises ConfigError for a device or count that cannot be."""
        from regard import machine

        machine.set_threads(self.threads)
        if self.seed is not None:
            machine.set_seed(self.seed)
        return machine.pick_device(self.named_device)

    @property
    def named_device(self) -> str | None:
        """The device that somebody asked for; None: whichever suits."""
        return self.device or os.environ.get("REGARD_DEVICE") or None


@dataclass(frozen=True, kw_only=True)
class InUse(Common):
    """Those of the verbs that use a model as well."""

    dtype: Literal["auto", "fp32", "bf16", "int8"] = "auto"
    """What matrices are computed in: fp32, or rounded, in less memory: bf16, int8. auto: as the model was quantised,
    else fp32."""
