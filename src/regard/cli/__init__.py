"""The command line: one small file per verb, each imported only when its verb runs.

What it is: `main` chooses the verb and the exit code, `console` writes, `common` holds the flags every verb has.
What is unusual: a verb module has a dataclass `Arguments` (its docstrings are the help) and `run(args) -> int | None`,
and imports torch inside `run`, so that help and completion answer at once.
What it does not know: how anything is computed.
"""
