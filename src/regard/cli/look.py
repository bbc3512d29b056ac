"""`regard look`: see what a model does with a text, number by number, on a page, in a file or as text.

What is unusual: the page is served to this machine alone, and needs nothing from anywhere; --html, --text and --json
need no server either, and so no extra packages. Without a browser to open it says what else there is.
What it does not know: what is on the page (`regard.inspect`).
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from regard.cli.common import Common
from regard.cli.console import err_console, print_json, size
from regard.errors import ConfigError, MissingExtraError, UserError

if TYPE_CHECKING:
    from regard.inspect.notebook import Look
    from regard.inspect.samples import Sample
    from regard.loaded import Loaded

HOST, PORT = "127.0.0.1", 8008
IN_FILE = 3
"""Runs in a file, where no text is given: so many of the model's own examples."""


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Look inside a model: which token looks at which, step by step as in the equations, on a page of this machine's.

    regard look runs/demo 'July 4, 2031' --to zh

    Without TEXT the page begins with the model's own development data. A model of questions, or of pairs, takes two.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The folder of a model or a run, or a Hugging Face folder."""
    texts: Annotated[Positional[tuple[str, ...]], arg(metavar="[TEXT [TEXT]]", help_behavior_hint="")] = ()
    """What it reads: a text, or a question and the text with its answer, or two that are compared."""
    target: Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")] = None
    """Look at this translation, or continuation, in place of what the model would write."""
    to: Annotated[str | None, arg(metavar="CODE", help_behavior_hint="")] = None
    """The language to translate into, for a model that has several."""
    html: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write the page as one file that needs nothing else, in place of serving it."""
    text: bool = False
    """Show a map of attention as text, in place of the page."""
    beside: Annotated[Path | None, arg(metavar="MODEL2", help_behavior_hint="")] = None
    """A second model, to compare with on the page."""
    port: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Where to serve; 0: any free port. Else 8008, or any free one where that is taken."""
    no_open: bool = False
    """Open no browser."""


def run(args: Arguments) -> None:
    """Show it in the way that was asked for."""
    _refuse(args)
    device = args.apply()
    from regard.api import load
    from regard.inspect.samples import Sample

    def open_model(path: Path) -> Loaded:
        return load(path, device=str(device), dtype="fp32")  # a quantised one is not looked into

    asked = Sample(args.texts, args.target, args.to) if args.texts else None
    if args.html is not None:
        _write(args, open_model(args.model), asked)
    elif args.json:
        from regard.inspect.payload import fingerprint, view_json

        seen = looks(open_model(args.model), asked, 1)[0]
        print_json(view_json(seen.view, mark=fingerprint(seen.model.path)))
    elif args.text:
        _print_map(open_model(args.model), asked)
    else:
        _serve(args, open_model, asked)


def _refuse(args: Arguments) -> None:
    """Raise ConfigError for flags that would change nothing."""
    if not args.texts and (args.target is not None or args.to is not None):
        raise ConfigError("there is no text that this is about", where="--target" if args.target else "--to",
                          expected="regard look MODEL TEXT")  # fmt: skip
    if args.beside is not None and (args.html is not None or args.text or args.json):
        raise ConfigError("two models are compared on the page alone", where="--beside",
                          mend="leave out --html, --text and --json")  # fmt: skip


def looks(model: Loaded, asked: Sample | None, count: int) -> list[Look]:
    """What the model does with the text that was asked for, or with so many of its own examples."""
    from regard.api import look
    from regard.inspect.samples import samples

    if asked is not None:
        return [look(model, asked.texts, target=asked.target, to=asked.to)]
    return [look(model, one.texts, to=one.to) for one in samples(model, count)]


def _print_map(model: Loaded, asked: Sample | None) -> None:
    """The attention as a map of text, as wide as the terminal."""
    from regard.inspect.notebook import can_show_blocks

    (seen,) = looks(model, asked, 1)
    print(seen.as_text(width=shutil.get_terminal_size().columns, blocks=can_show_blocks()), flush=True)


def _write(args: Arguments, model: Loaded, asked: Sample | None) -> None:
    from regard.hub.atomic import write_text_atomic
    from regard.inspect.embedded import page_of
    from regard.inspect.payload import fingerprint

    assert args.html is not None
    out, found = args.html, looks(model, asked, IN_FILE)
    page = page_of(model, [one.view for one in found], mark=fingerprint(model.path))
    write_text_atomic(out, page)
    if args.json:
        print_json({"html": out, "bytes": out.stat().st_size, "texts": [one.view.request.texts for one in found]})
    elif not args.quiet:
        err_console.print(f"{out}: {size(out.stat().st_size)}, opens in any browser", soft_wrap=True)


# ---------------------------------------------------------------- the page


def _serve(args: Arguments, open_model: Callable[[Path], Loaded], asked: Sample | None) -> None:
    """Serve the page until Ctrl-C."""
    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "look", "the page (unlike --html FILE and --text)")
    import uvicorn

    from regard.inspect.app import make_app

    paths = [args.model] if args.beside is None else [args.model, args.beside]
    with listening(args.port) as listener:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard" / "roles"
        app = make_app(paths, open_model, asked=asked, roles_cache=cache)
        port = listener.getsockname()[1]
        url = f"http://{HOST}:{port}/"
        print(url, flush=True)
        if not args.quiet:
            err_console.print("Ctrl-C ends", soft_wrap=True)
        if not args.no_open and not open_in_browser(url) and not args.quiet:
            err_console.print(
                f"there is no browser to open here. From another machine: ssh -L {port}:{HOST}:{port} THIS_MACHINE, "
                "then open the address there. Or: regard look MODEL TEXT --html FILE, or --text", soft_wrap=True,
            )  # fmt: skip
            if asked is not None and sys.stdout.isatty():  # somebody sits here and wants to see something
                _print_map(open_model(args.model), asked)
        # What a tab still waits for has a second, then is cut off without a word; the app itself tells faults of ours.
        config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def listening(port: int | None) -> socket.socket:
    """A socket on this machine's own address that listens at a port; None: the usual one, or else a free one.

    Raises:
        ConfigError: there is no such port.
        UserError: it is in use, or may not be used.
    """
    if port is None:
        with suppress(UserError):
            return listening(PORT)
        return listening(0)
    if not 0 <= port <= 65535:
        raise ConfigError("there is no such port", where="--port", expected="0 to 65535", got=port)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UserError("the page cannot be served here", where=f"{HOST}:{port}", got=error.strerror,
                        mend="choose another port, or --port 0 for any that is free") from None  # fmt: skip
    return listener


def open_in_browser(url: str) -> bool:
    """Open it where somebody sits before a terminal and a browser has a screen; says whether. Never waits for it."""
    screen = sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    if not (sys.stdout.isatty() and screen):
        return False
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    return True
