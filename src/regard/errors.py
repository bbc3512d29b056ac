"""The errors a user can cause, and the exit code each one ends with.

What it is: one small tree. Anything raised from here is shown to the user as a sentence, never as a traceback;
anything else that escapes is a bug of ours and keeps its traceback.
What is unusual: an error is written from parts (what, where, expected, got, mend), so that none of them is forgotten
and every front (shell, Python, HTTP) can lay them out its own way.
What it does not know: how errors are printed, and what any other module does.
"""

from __future__ import annotations

UNREADABLE = "see whether it is yours to read (ls -l), and whether its disk answers"
"""What to do about a file that is there and cannot be read."""


class UserError(Exception):
    """A mistake outside the program: says what is wrong, where, what was expected, what came, and how to mend it.

    Args:
        what: one sentence, without a full stop at its end.
        where: a file, `file:line`, a field or a tensor name.
        expected: what would have been right.
        got: what was there instead.
        mend: what to type or change, as an imperative.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        expected: object = None,
        got: object = None,
        mend: str | None = None,
    ) -> None:
        self.what, self.where, self.expected, self.got, self.mend = what, where, expected, got, mend
        super().__init__(str(self))

    def __str__(self) -> str:
        head = self.what if self.where is None else f"{self.where}: {self.what}"
        parts = [("expected", self.expected), ("got", self.got), ("to mend it", self.mend)]
        return "\n".join([head, *(f"  {name}: {value}" for name, value in parts if value is not None)])


class ConfigError(UserError):
    """A command line, recipe or model configuration that cannot be meant (exit 2)."""

    exit_code = 2


class DataError(UserError):
    """A data file that is missing, malformed or unfit for the task (exit 3)."""

    exit_code = 3


class CheckpointError(UserError):
    """A model folder or checkpoint that is missing, corrupt or does not fit (exit 4)."""

    exit_code = 4


class NonFiniteError(UserError):
    """Training met a NaN or an infinity and stopped before the update (exit 5)."""

    exit_code = 5


class LeftError(UserError):
    """Training was asked to leave by a signal, and did so after saving (exit 75; 130 for Ctrl-C)."""

    def __init__(self, run: object, step: int, signal: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(
            f"{signal} came, so training has stopped; update {step:,} is saved",
            where=run,
            mend=f"go on with: regard train --out {run} --resume",
        )


class MissingExtraError(UserError):
    """An optional library is absent; the message names the `pip install` to type (exit 2)."""

    exit_code = 2

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the Python package {package}, which is not installed",
            mend=f"pip install 'regard[{extra}]'",
        )
