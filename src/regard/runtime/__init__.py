"""The same Model, made fast on the machine at hand. It knows models and machines, no text and no files."""

from regard.runtime.host import keep_freed_memory, use_measured_kernels

__all__ = ["keep_freed_memory", "use_measured_kernels"]
