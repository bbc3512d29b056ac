"""Write what the READMEs show of `regard look`, from the demo's run: python docs/look.py runs/demo

README.md, README.zh.md     between the marks, the role of each head over 50 sentences of the demo's development data
docs/look-*.png             the page as a browser shows it (Chromium by scripts/browser; playwright is of the extra dev)
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import regard
from regard.inspect.roles import HeadRole, head_roles
from regard.inspect.samples import samples
from regard.inspect.scripts import Request

HERE = Path(__file__).parent
SENTENCES = 50
DATE = "October 6, 2031"
WAIT_MS = 5_000
"""A page is given so long to draw everything."""
PICTURES = {
    "attention": ("light", "en", "#screen=attention&part=decoder.cross&layer=1&head=2&row=2"),
    "sum": ("light", "en", "#screen=sum&part=decoder.cross&layer=1&head=2&row=2"),
    "attention-zh": ("dark", "zh-CN", "#screen=attention&part=decoder.cross&layer=1&head=2&row=2"),
}
"""Name of a picture: the browser's colours and language, and where the page is opened."""
START, END = "<!-- roles: written by docs/look.py -->\n", "<!-- /roles -->"
PARTS = {
    "README.md": {"encoder.self": "encoder", "decoder.self": "decoder", "decoder.cross": "cross-attention"},
    "README.zh.md": {"encoder.self": "编码器", "decoder.self": "解码器", "decoder.cross": "交叉注意力"},
}
HEADS = {"README.md": ("layer", "head {}"), "README.zh.md": ("层", "第 {} 个头")}
NAMES = {
    "README.md": {
        "previous": "previous token", "self": "itself", "next": "next token", "local": "near tokens",
        "offset": "offset", "sink": "specials and punctuation", "uniform": "all alike", "duplicate": "same token",
        "induction": "induction", "long-range": "far away", "band": "diagonal", "source-end": "source's end",
        "rare": "rarest word", "copy": "the token it writes", "mixed": "mixed",
    },
    "README.zh.md": {
        "previous": "前一个词元", "self": "自己", "next": "后一个词元", "local": "邻近词元", "offset": "固定偏移",
        "sink": "特殊符号与标点", "uniform": "平均", "duplicate": "相同词元", "induction": "归纳", "long-range": "远处",
        "band": "对角线", "source-end": "源句末尾", "rare": "最罕见的词", "copy": "它要写的词元", "mixed": "混合",
    },
}  # fmt: skip


def roles_table(readme: str, roles: list[HeadRole]) -> str:
    """One line a layer, one cell a head: its role, the share of weight it explains, what the loss rises without it."""
    n_heads = 1 + max(role.head for role in roles)
    first, each = HEADS[readme]
    rows = [(first, *(each.format(head + 1) for head in range(n_heads))), ("---",) * (n_heads + 1)]
    for part, name in PARTS[readme].items():
        own = [role for role in roles if role.part == part]
        for layer in sorted({role.layer for role in own}):
            rows.append((f"{name} {layer + 1}", *(cell(NAMES[readme], role) for role in own if role.layer == layer)))
    return START + "\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows) + "\n" + END


def cell(names: dict[str, str], role: HeadRole) -> str:
    """`previous token 98 % (+0.810)`; what is mixed has no score worth showing."""
    name = names[role.role] + (f" {role.offset:+d}" if role.role == "offset" else "")
    share = "" if role.role == "mixed" else f" {role.score:.0%}"
    return f"{name}{share} ({role.effect:+.3f})"


def take_pictures(run: str) -> None:
    """The page's screens, as a browser draws them."""
    from playwright.sync_api import sync_playwright

    found = subprocess.run([HERE.parent / "scripts" / "browser"], capture_output=True, text=True, check=True)
    command = [sys.executable, "-m", "regard", "look", run, DATE, "--to", "de", "--port", "0", "--no-open", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=found.stdout.strip(), args=["--no-sandbox"])
            for name, (scheme, language, place) in PICTURES.items():
                size = {"width": 1280, "height": 900}
                shown = browser.new_page(viewport=size, color_scheme=scheme, locale=language)
                shown.goto(url + place)
                shown.wait_for_timeout(WAIT_MS)
                shown.screenshot(path=HERE / f"look-{name}.png")
            browser.close()
    finally:
        server.terminate()


def main() -> None:
    """Write the tables and the pictures."""
    loaded = regard.load(sys.argv[1])
    found = samples(loaded, SENTENCES)
    roles = head_roles(loaded, [Request(texts=one.texts, target=one.target, to=one.to) for one in found])
    for readme in HEADS:
        path = HERE.parent / readme
        text = path.read_text(encoding="utf-8")
        before, after = text.split(START)[0], text.split(END)[1]
        path.write_text(before + roles_table(readme, roles) + after, encoding="utf-8")
    take_pictures(sys.argv[1])


if __name__ == "__main__":
    main()
