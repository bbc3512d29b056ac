"""What an exception means to the shell: a sentence on stderr, an exit code, and with --json an object on stdout.

What it is: the table of faults.md as one `match`.
What is unusual: only an exception that nobody foresaw shows a traceback, for that is a fault of ours.
What it does not know: what was being done.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback

from rich.text import Text

from regard.cli.console import err_console, print_json, size
from regard.errors import UserError


def exit_code(error: BaseException, *, as_json: bool) -> int:
    """Tell the user about `error`, and return the exit code of the process."""
    match error:
        case SystemExit(code=None):
            return 0
        case SystemExit(code=int(code)):
            return code
        case KeyboardInterrupt():
            err_console.print("interrupted")
            return 128 + signal.SIGINT
        case BrokenPipeError():
            # The reader has gone (`regard ... | head`). Python would flush stdout again at exit, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141  # what the shell reports for SIGPIPE
        case UserError():
            return _tell(error, as_json)
        case _ if shortage := memory_shortage(error):
            return _tell(shortage, as_json)
    traceback.print_exception(error)
    err_console.print("This is a fault in regard: please report it, with the lines above and the command.")
    if as_json:
        print_json({"error": {"type": type(error).__name__, "what": str(error), "exit_code": 1}})
    return 1


def _tell(error: UserError, as_json: bool) -> int:
    err_console.print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
    if as_json:
        parts = {name: value for name, value in vars(error).items() if value is not None}
        texts = {name: str(value) for name, value in parts.items()}
        print_json({"error": {"type": type(error).__name__, **texts, "exit_code": error.exit_code}})
    return error.exit_code


def memory_shortage(error: BaseException) -> UserError | None:
    """The UserError that says what was asked for and what there is, when `error` means that memory ran out.

    Python raises MemoryError, torch an OutOfMemoryError on a GPU and a plain RuntimeError on the CPU.
    """
    text = str(error)
    torch_ran_out = type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in text
    if not (torch_ran_out or isinstance(error, MemoryError)):
        return None
    from regard.limits import memory

    asked = re.search(r"(?i)(?:tried|unable) to allocate (([\d.]+) (\w+))", text)
    needed = "more" if not asked else size(int(asked[2])) if asked[3] == "bytes" else asked[1]
    free = re.search(r"of which ([\d.]+ \w+) is free", text)
    return UserError(
        "out of memory",
        expected=f"at most {free[1] if free else size(memory()[1])}, what is available now",
        got=f"a request for {needed}",
        mend="in training make batches smaller (--set batch.tokens=N), part them (--set batch.accumulate=2: the same "
        "updates) or cut what is read (--set batch.max_len=N); elsewhere take shorter texts, or a smaller model",
    )
