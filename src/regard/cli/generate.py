"""`regard generate`: a prompt in, what a language model makes of it out, as it is made.

What is unusual: stdout holds what the model said and nothing else, not even the prompt; each piece is written when it
is certain, so that what has been shown is never taken back and is always whole characters.
What it does not know: how a text is continued (`regard.loaded`).
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from regard.cli.common import InUse
from regard.cli.console import err_console, print_json
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.api import Generation

LONGEST_PROMPT = 2**24
BETWEEN = "---"
"""A line between two samples."""


@dataclass(frozen=True, kw_only=True)
class Arguments(InUse):
    """Continue a text: what the model says after a prompt, without the prompt.

    regard generate runs/lm --prompt 'To be' --temperature 0.8 --max-tokens 100

    Without --prompt, the prompt is standard input, less one line end at its end. --prompt '' begins a text. With --n
    the samples are parted by a line `---`; --json has each with its tokens and their log-probabilities. Settings work
    in this order: penalties, temperature, top-k, top-p, min-p, and of what is left one is drawn.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run, or a Hugging Face folder."""
    prompt: Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")] = None
    """What to continue."""
    max_tokens: Annotated[int, arg(metavar="N")] = 256
    """The most tokens to say."""
    temperature: Annotated[float | None, arg(metavar="T", help_behavior_hint="")] = None
    """0: the likeliest token each time; 1: by the model's probabilities; above: bolder. Default: 1 with --top-k,
    --top-p, --min-p or --n, else 0."""
    top_k: Annotated[int, arg(metavar="K")] = 0
    """Draw from the K likeliest tokens; 0: from all."""
    top_p: Annotated[float, arg(metavar="P")] = 1.0
    """Draw from the fewest tokens that hold this share of the probability."""
    min_p: Annotated[float, arg(metavar="P")] = 0.0
    """Draw from tokens at least this share as probable as the likeliest."""
    repetition_penalty: Annotated[float, arg(metavar="R")] = 1.0
    """Above 1: tokens of the prompt and the text so far become less likely."""
    presence_penalty: Annotated[float, arg(metavar="P")] = 0.0
    """What the logits of tokens of the text so far lose."""
    stop: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TEXT", help_behavior_hint="")] = ()
    """End before this string; may be repeated."""
    n: Annotated[int, arg(metavar="N")] = 1
    """Samples; the K-th from 0 is that of seed + K."""
    raw: bool = False
    """Continue the prompt as it stands, where a model trained on conversations would take it for a question."""
    truncate: bool = False
    """Leave out the beginning of a prompt that is too long for the model, and say so."""


def run(args: Arguments) -> None:
    """Stream one continuation, or write several when they are done."""
    args.apply()
    from regard.api import load

    prompt = standard_input() if args.prompt is None else args.prompt
    model = load(args.model, device=args.named_device, dtype=args.dtype)
    options: dict[str, Any] = {
        name: getattr(args, name)
        for name in (
            "max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "stop",
            "seed", "truncate", "raw",
        )
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if args.n == 1 and not args.json:
            pieces = model.stream(prompt, **options)
            _pass_on(said)
            for piece in pieces:
                print(piece, end="", flush=True)
            print()
            return
        found = model.generate(prompt, n=args.n, **options)
    _pass_on(said)
    if args.json:
        print_json({"prompt": prompt, **_object(found)})
    else:
        print(f"\n{BETWEEN}\n".join(one.text for one in (found, *found.alternatives)))


def _pass_on(said: list[warnings.WarningMessage]) -> None:
    for warning in said:
        err_console.print(str(warning.message), markup=False)


def standard_input() -> str:
    """Standard input as a prompt.

    Raises:
        DataError: it is no UTF-8, or larger than 16 MiB.
    """
    from regard.data.files import NOT_UTF8

    if sys.stdin.isatty():
        err_console.print("a prompt, then Ctrl-D")
    with open(sys.stdin.fileno(), "rb", closefd=False) as stream:
        data = stream.read(LONGEST_PROMPT + 1)
    if len(data) > LONGEST_PROMPT:
        raise DataError("the prompt is too long", where="-", expected=f"<= {LONGEST_PROMPT:,} bytes",
                        mend="give its end alone, which is what a model looks back to")  # fmt: skip
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError("the prompt is not UTF-8", where="-", got=f"the byte 0x{data[error.start]:02x}",
                        mend=NOT_UTF8) from None  # fmt: skip
    return text.removesuffix("\n").removesuffix("\r")


def _object(found: Generation) -> dict[str, Any]:
    row: dict[str, Any] = {
        "text": found.text, "finish_reason": found.finish_reason, "tokens": found.tokens, "logprobs": found.logprobs,
    }  # fmt: skip
    row |= {"left_out": found.left_out} if found.left_out else {}
    return row | ({"alternatives": [_object(one) for one in found.alternatives]} if found.alternatives else {})
