"""What the tests of the page have: one browser, real servers with small real models, and a page that may not complain.

What is unusual: the servers are threads of this process, so that torch is imported once; they are otherwise what
`regard look` runs. The browser resolves no name, and a page that asks for anything but its server fails its test, as
does one that writes an error to its console.
"""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

import regard
from regard.cli.main import main
from regard.hub.atomic import commit_folder
from regard.hub.folder import write_model
from regard.inspect.app import make_app
from regard.model import TransformerConfig, make_model
from regard.text import Tokenizer

PATIENCE = 20
"""Seconds; only a page that is broken takes them."""
expect.set_options(timeout=1000 * PATIENCE)
CHECKOUT = Path(__file__).resolve().parents[2]
IDLE = """(() => {
  const [kind, view] = window.regard ? [regard.store.get("status").kind, regard.store.get("view")] : ["busy", null];
  return kind === "error" || (kind === "idle" && view !== null);
})()"""
"""When the page has its answer, or says that there is none."""


@dataclass(frozen=True)
class Served:
    """A model on a page."""

    url: str
    model: regard.Loaded


@dataclass
class Opened:
    """A page, what it complained of (a test that expects complaints clears them), and what it is still fetching."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    fetching: set[Request] = field(default_factory=set)

    def get(self, key: str) -> Any:
        """A value of the page's store."""
        return self.page.evaluate("key => regard.store.get(key)", key)

    def set(self, **patch: Any) -> None:
        self.page.evaluate("patch => regard.store.set(patch)", patch)

    def until(self, true: str, given: Any = None) -> None:
        """Until a JavaScript expression is true; playwright's own way is eval, which the page's policy forbids."""
        end = time.monotonic() + PATIENCE
        while not self.page.evaluate(f"given => {true}", given):
            assert time.monotonic() < end, f"it never became true that {true}"
            self.page.wait_for_timeout(15)

    def wait(self) -> None:
        """Until the model has run, and nothing more is fetched."""
        end = time.monotonic() + PATIENCE
        while self.fetching or not self.page.evaluate(IDLE):
            assert time.monotonic() < end, f"still busy: {[one.url for one in self.fetching]}"
            self.page.wait_for_timeout(15)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder take a browser."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.whole)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, as `scripts/browser` finds it, or a failure that says what to type."""
    found = subprocess.run([CHECKOUT / "scripts" / "browser"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.fail(found.stderr)
    with sync_playwright() as playwright:
        nowhere = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=found.stdout.strip(), args=["--no-sandbox", nowhere])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., Served]]:
    """`serve(path, ..)` is the page of that model, or of two beside each other; each is opened once."""
    servers = list[tuple[uvicorn.Server, threading.Thread]]()
    known = dict[tuple[Path, ...], Served]()

    def start(*paths: Path) -> Served:
        if paths not in known:
            model = regard.load(paths[0], device="cpu")
            app = make_app(paths, lambda path: regard.load(path, device="cpu"))
            listener = socket.create_server(("127.0.0.1", 0))
            config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
            thread.start()
            servers.append((server, thread))
            known[paths] = Served(f"http://127.0.0.1:{listener.getsockname()[1]}/", model)
        return known[paths]

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join(timeout=10)


@pytest.fixture(scope="session")
def translator(serve: Callable[..., Served], workplace: Path) -> Served:
    return serve(workplace / "run")


@pytest.fixture(scope="session")
def language_model(serve: Callable[..., Served], model_dir: Callable[[str], Path]) -> Served:
    return serve(model_dir("stories260k"))


@pytest.fixture(scope="session")
def classifier(
    serve: Callable[..., Served], data_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Served:
    """Of questions, by the kind of their answer; trained for a moment by the command."""
    folder = tmp_path_factory.mktemp("questions")
    lines = (data_dir("trec") / "train.txt").read_text(encoding="utf-8").split("\n")
    (folder / "train.txt").write_text("\n".join(lines[:200]) + "\n", encoding="utf-8")
    (folder / "dev.txt").write_text("\n".join(lines[200:230]) + "\n", encoding="utf-8")
    sizes = "model.d_model=32 model.n_heads=2 model.d_ff=48 model.n_encoder_layers=2 model.dropout=0.0"
    changes = ["tokenizer.vocab_size=600", "loop.steps=12", 'data.label_until=":"', *sizes.split()]
    words = ["train", "classification", str(folder / "train.txt"), "--dev", str(folder / "dev.txt"), "--quiet"]
    words += ["--out", str(folder / "run"), "--threads", "1", *[word for one in changes for word in ("--set", one)]]
    assert main(words) == 0
    return serve(folder / "run")


@pytest.fixture(scope="session")
def untrained(serve: Callable[..., Served], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Served]:
    """`untrained("tagging")`: a model of that task whose weights are drawn, so that its outputs vary."""
    heads = {"tagging": "tagger", "question-answering": "span", "masked-lm": "masked-lm"}
    tokenizer = Tokenizer.train(["the cat sat on the mat", "A man rides a bicycle."] * 3, vocab_size=320)

    def write(task: str) -> Served:
        torch.manual_seed(1)
        config = TransformerConfig(vocab_size=320, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=2, max_len=96)
        model = make_model(config, heads[task], 3)
        for parameter in model.parameters():
            parameter.data = torch.randn_like(parameter) * 0.5 + (parameter if parameter.ndim == 1 else 0)
        if task == "tagging":
            model.head.out.bias.data[0] -= 5  # it marks more than it leaves out
        about = {"task": task, "labels": ["O", "B-A", "B-B"]}
        if task == "question-answering":
            about = {"task": task, "answering": {"length": 60, "overlap": 8, "longest": 6, "null": False}}
        folder = tmp_path_factory.mktemp("untrained") / task
        commit_folder(folder, lambda draft: write_model(draft, model.eval(), tokenizer, about))
        return serve(folder)

    return write


@pytest.fixture(scope="session")
def six_by_eight(serve: Callable[..., Served], tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A language model of the size that look.md's budgets speak of, as it was drawn."""
    tokenizer = Tokenizer.train(["Once upon a time there was a girl and her dog."] * 3, vocab_size=320)
    torch.manual_seed(1)
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 256, "n_heads": 8, "d_ff": 512, "n_decoder_layers": 6}
    model = make_model(TransformerConfig(**sizes, norm_order="pre", max_len=512), "language-model").eval()
    folder, about = tmp_path_factory.mktemp("budgets") / "model", {"task": "language-model"}
    commit_folder(folder, lambda draft: write_model(draft, model, tokenizer, about))
    return serve(folder)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", color_scheme="light")
    context.set_default_timeout(1000 * PATIENCE)
    yield context
    context.close()


@pytest.fixture
def visit(context: BrowserContext) -> Iterator[Callable[..., Opened]]:
    """`visit(served, "screen=attention")` opens its page there; what it complains of fails the test at its end."""
    visited = list[Opened]()

    def open_page(served: Served, place: str = "", *, wait: bool = True) -> Opened:
        page = context.new_page()
        opened = Opened(page)
        page.on("console", lambda told: opened.complaints.append(told.text) if told.type == "error" else None)
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on("request", lambda asked: _asked(served.url, asked, opened))
        page.on("requestfinished", lambda done: opened.fetching.discard(done))
        page.on("requestfailed", lambda done: opened.fetching.discard(done))
        page.goto(f"{served.url}#{place}")
        if wait:
            opened.wait()
        visited.append(opened)
        return opened

    yield open_page
    for opened in visited:
        assert opened.complaints == []


def _asked(home: str, asked: Request, opened: Opened) -> None:
    if asked.url.startswith(home):
        opened.fetching.add(asked)
    elif not asked.url.startswith(("data:", "blob:")):
        opened.complaints.append(f"the page asked for {asked.url}")
