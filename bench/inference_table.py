"""What bench/inference.py makes of its measurements: limits of the machine, ratios, a table, a section of a page.

What is unusual: a peer far below what it is known to reach is badly set up, and beating it says nothing: it stands in
the table and counts for no ratio. What each is known to reach was measured on two cores of a Zen 4. A quicker machine
is expected to reach no less; a slower one as much less as its memory or its products are slower, whichever is more.
What it does not know: engines, processes.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference_limits import Limits

BITS = {"plain": 32, "fp32": 32, "f32": 32, "bf16": 16, "f16": 16, "int8": 8, "q8_0": 8}
"""Of a weight, by the last word of an engine's name."""
SLACK = 0.85
"""A peer below this share of what it is known to reach is badly set up."""
KNOWN: dict[tuple[str, str], dict[str, float]] = {
    ("gpt2", "decoding alone"): {
        "llama.cpp f32": 52, "llama.cpp f16": 119, "llama.cpp bf16": 100, "llama.cpp q8_0": 128,
        "CTranslate2 fp32": 49, "CTranslate2 int8": 67, "transformers fp32": 18, "transformers bf16": 30,
    },
    ("gpt2-batch8", "decoding alone"): {
        "llama.cpp f32": 209, "llama.cpp bf16": 366, "llama.cpp q8_0": 314, "CTranslate2 fp32": 156,
        "CTranslate2 int8": 207, "transformers fp32": 78, "transformers bf16": 132,
    },
    ("prefill", "prompt"): {"llama.cpp bf16": 1_080, "CTranslate2 int8": 1_950, "transformers bf16": 1_290},
    ("translation", "greedy"): {
        "CTranslate2 fp32": 42, "CTranslate2 int8": 101, "transformers fp32": 30, "transformers bf16": 49,
    },
    ("translation", "beam 4"): {
        "CTranslate2 fp32": 18, "CTranslate2 int8": 40, "transformers fp32": 10, "transformers bf16": 15,
    },
    ("translation", "one alone"): {
        "CTranslate2 fp32": 212, "CTranslate2 int8": 147, "transformers fp32": 525, "transformers bf16": 267,
    },
    ("encoder", "all"): {
        "onnxruntime fp32": 386, "onnxruntime int8": 940, "OpenVINO fp32": 448, "OpenVINO bf16": 761,
        "CTranslate2 fp32": 422, "CTranslate2 int8": 763, "transformers fp32": 285, "transformers bf16": 559,
    },
}  # fmt: skip
"""(work, measure) -> engine -> value."""


@dataclass(frozen=True)
class Measure:
    """One thing that is measured of a work."""

    name: str
    unit: str
    less_is_better: bool = False

    def times_better(self, value: float, other: float) -> float:
        """How many times better a value is."""
        return other / value if self.less_is_better else value / other


MEASURES: dict[str, tuple[Measure, ...]] = {
    "gpt2": (Measure("whole", "tokens/s"), Measure("decoding alone", "tokens/s")),
    "gpt2-batch8": (Measure("whole", "tokens/s"), Measure("decoding alone", "tokens/s")),
    "prefill": (Measure("prompt", "tokens/s"),),
    "translation": (Measure("greedy", "sentences/s"), Measure("beam 4", "sentences/s"),
                    Measure("one alone", "ms", less_is_better=True)),
    "encoder": (Measure("all", "sentences/s"),),
    "load": (Measure("loading", "s", less_is_better=True),
             Measure("from start to first token", "s", less_is_better=True),
             Measure("peak memory", "MiB", less_is_better=True)),
}  # fmt: skip


BEST = "the best of the peers"
GOALS: dict[str, tuple[tuple[str, str, str, float], ...]] = {
    "gpt2": (("whole", "regard fp32", "llama.cpp f32", 1.0), ("whole", "regard bf16", "llama.cpp f16", 1.0),
             ("whole", "regard int8", "llama.cpp q8_0", 1.15)),
    "gpt2-batch8": (("whole", "regard", BEST, 1.25),),
    "prefill": (("prompt", "regard bf16", "llama.cpp bf16", 1.2), ("prompt", "regard int8", "CTranslate2 int8", 1.0)),
    "translation": (
        *((name, "regard fp32", "CTranslate2 fp32", 1.2) for name in ("greedy", "beam 4")),
        *((name, "regard", "CTranslate2 int8", 1.3) for name in ("greedy", "beam 4")),
        ("one alone", "regard fp32", "CTranslate2 fp32", 1.0), ("one alone", "regard int8", "CTranslate2 int8", 1.0),
    ),
    "encoder": (("all", "regard fp32", BEST, 1.3), ("all", "regard bf16", "OpenVINO bf16", 1.2),
                ("all", "regard int8", "onnxruntime int8", 1.1)),
    "load": tuple((name, f"regard {form}", peer, 1.0) for name in ("loading", "peak memory")
                  for form, peer in (("fp32", "CTranslate2 fp32"), ("fp32", "transformers fp32"),
                                     ("bf16", "transformers bf16"), ("int8", "CTranslate2 int8"))),
}  # fmt: skip
"""work -> (measure, ours, a peer, how many times as good ours is to be). Ours without a form is our best; the best of
the peers is that of all for our best, and of the same bits for a form."""


def bits(engine: str) -> int:
    """Of a weight of that engine's."""
    return BITS[engine.split()[-1]]


def is_ours(engine: str) -> bool:
    """Whether it is no peer."""
    return engine.startswith("regard")


# ---------------------------------------------------------------- ratios


def badly_set_up(work: str, measure: Measure, engine: str, value: float, gain: float) -> bool:
    """Whether a peer is far from what it is known to reach, of which such a share is due on this machine."""
    known = KNOWN.get((work, measure.name), {}).get(engine)
    if known is None or is_ours(engine):
        return False
    due = known / gain if measure.less_is_better else known * gain
    return measure.times_better(value, due) < SLACK


@dataclass(frozen=True)
class Found:
    """What was found of a work: medians by engine, a value for each measure."""

    work: str
    values: Mapping[str, Sequence[float]]
    limits: Limits
    most: Mapping[int, Sequence[float]]
    """The limit of each measure, by bits; empty where there is none."""
    agrees: Mapping[str, str]
    """How alike an engine's outputs are to the reference's, in words; an engine too unlike counts for no ratio."""
    unlike: frozenset[str] = frozenset()

    def best_peer(self, place: int, width: int | None = None) -> str | None:
        """The best peer that counts, of those with weights of that many bits."""
        measure = MEASURES[self.work][place]
        counts = [
            engine
            for engine, values in self.values.items()
            if not is_ours(engine) and engine not in self.unlike and width in (None, bits(engine))
            and not badly_set_up(self.work, measure, engine, values[place], self.limits.gain)
        ]  # fmt: skip
        return self._best(counts, place)

    def best_ours(self, place: int) -> str | None:
        """The best of ours."""
        return self._best([engine for engine in self.values if is_ours(engine)], place)

    def ratio(self, engine: str, other: str, place: int) -> float:
        """How many times better an engine is."""
        return MEASURES[self.work][place].times_better(self.values[engine][place], self.values[other][place])

    def _best(self, engines: Sequence[str], place: int) -> str | None:
        measure = MEASURES[self.work][place]
        ranked = sorted(engines, key=lambda engine: self.values[engine][place])
        return (ranked[0] if measure.less_is_better else ranked[-1]) if ranked else None


def medians(rounds: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, list[float]]:
    """The median of each measure over an engine's rounds; those that gave none are left out."""
    return {
        engine: [statistics.median(values) for values in zip(*found, strict=True)]
        for engine, found in rounds.items() if found
    }  # fmt: skip


# ---------------------------------------------------------------- a table


def shown(value: float) -> str:
    """To three digits, or as a whole number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cells(found: Found, engine: str, place: int) -> list[str]:
    """Of one measure: the value, the ratio to the best peer of the same bits, the share of the limit."""
    measure, value = MEASURES[found.work][place], found.values[engine][place]
    bad = badly_set_up(found.work, measure, engine, value, found.limits.gain)
    told, ratio = shown(value) + (" (badly set up)" if bad else ""), ""
    if is_ours(engine):
        other = found.best_peer(place, bits(engine))
        ratio = f"{found.ratio(engine, other, place):.2f}" if other else "-"
    if not found.most:
        return [told, ratio]
    return [told, ratio, f"{1 / measure.times_better(found.most[bits(engine)][place], value):.0%}"]


def table(found: Found) -> str:
    """Markdown: a line for each engine, by bits; then how our best stands to the best of theirs."""
    measures = MEASURES[found.work]
    heads = ["engine"]
    for measure in measures:
        heads += [f"{measure.name}, {measure.unit}", "x same bits", *(["of the limit"] if found.most else [])]
    heads += ["agrees"] if found.agrees else []
    lines = [heads, ["---"] * len(heads)]
    for engine in sorted(found.values, key=lambda engine: (-bits(engine), not is_ours(engine))):
        row = [cell for place in range(len(measures)) for cell in cells(found, engine, place)]
        agrees = found.agrees.get(engine, "") + (", does not count" if engine in found.unlike else "")
        lines.append([engine, *row, *([agrees] if found.agrees else [])])
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    for place, measure in enumerate(measures):
        if (best := found.best_ours(place)) and (peer := found.best_peer(place)):
            text += (
                f"\n- {measure.name}: {best} is {found.ratio(best, peer, place):.2f} x {peer}, the best of the peers"
            )
    told = goals(found)
    return text.rstrip() + "\n" + ("\n" * bool(told) + "".join(f"- {line}\n" for line in told))


def goals(found: Found) -> list[str]:
    """A line for each goal whose two engines were measured: reached, or missed, and then at what share of the limit."""
    names, lines = [measure.name for measure in MEASURES[found.work]], list[str]()
    for name, ours, peer, least in GOALS[found.work]:
        place = names.index(name)
        mine = found.best_ours(place) if ours == "regard" else ours
        other = found.best_peer(place, None if ours == "regard" else bits(ours)) if peer == BEST else peer
        if mine not in found.values or other not in found.values or other in found.unlike:
            continue
        ratio = found.ratio(mine, other, place)
        line = f"goal, {name}: {mine} at least {least:g} x {other}: {ratio:.2f} x, "
        if ratio >= least:
            line += "reached"
        else:
            line += "missed"
            if found.most:
                most = found.most[bits(mine)][place]
                share = 1 / MEASURES[found.work][place].times_better(most, found.values[mine][place])
                line += f", at {share:.0%} of what memory and arithmetic allow"
        lines.append(line)
    return lines


# ---------------------------------------------------------------- a page

TITLES = {
    "gpt2": "GPT-2, 124 M: 128 tokens after a prompt of 128",
    "gpt2-batch8": "GPT-2, 124 M: the same for 8 prompts at once",
    "prefill": "GPT-2, 124 M: a prompt of 512 tokens",
    "translation": "Transformer base, vocabulary 32,000: 64 sentences of 25 tokens, 25 out",
    "encoder": "MiniLM: 256 real sentences, from text to vectors",
    "load": "GPT-2, 124 M: opening it",
}
PAGE = """# Inference beside other engines

Written by `python bench/inference.py --write`; each section by its own run, a change by hand is lost. All engines have
the same weights, run alternately, each in a process of its own, and the medians of the rounds are shown. *x same bits*:
times the best peer with weights of as many bits. *of the limit*: of what this machine's memory (weights read once for
each pass) and arithmetic would allow, as measured in the same run. *agrees*: the share of an engine's tokens that the
reference, `transformers` in float32, says after the same tokens; of an encoder the least cosine to the reference's
vectors. A peer that runs below 85 % of what it is known to reach is marked and does not count. Under each table stands
what we set out to reach, and whether we did.
"""


def section(work: str, text: str) -> str:
    """A work's part of the page, between two marks."""
    return f"<!-- {work} -->\n## {TITLES[work]}\n\n{text}<!-- /{work} -->\n"


def with_section(page: str, work: str, text: str) -> str:
    """The page with that work's part anew; the parts stand in the order of TITLES."""
    parts = {}
    for name in TITLES:
        if f"<!-- {name} -->\n" in page:
            inner = page.split(f"<!-- {name} -->\n")[1].split(f"<!-- /{name} -->\n")[0]
            parts[name] = f"<!-- {name} -->\n{inner}<!-- /{name} -->\n"
    parts[work] = section(work, text)
    return "\n".join([PAGE, *(parts[name] for name in TITLES if name in parts)])
