"""Models used, timed: ours beside llama.cpp, CTranslate2, onnxruntime, OpenVINO and transformers, on the same weights.

    python bench/inference.py [--work gpt2 ...] [--engines "regard int8" ...] [--rounds 3] [--folder DIR] [--write]

    gpt2            GPT-2 of 124 M parameters, random weights: 128 tokens after a prompt of 128, greedily
    gpt2-batch8     the same for 8 prompts at once
    prefill         a prompt of 512 tokens, and one token after it
    translation     6 + 6 layers of width 512, vocabulary 32,000, random weights: 64 sources of 25 tokens, 25 out,
                    greedily and with a beam of 4; and one alone
    encoder         all-MiniLM-L6-v2 on 256 real sentences of 15 tokens on average, from text to vectors
    load            GPT-2 opened: seconds, and memory

Each engine runs in a process of its own, alternately for some rounds, with two threads; the table gives medians. Before
a table is printed, what each engine said is held against transformers in float32 (inference_agree.py), and one in
float32 that says other things ends the benchmark. An engine that is not installed is left out, and that is told. What
is made of the models for each engine is kept in --folder. `--write` puts the tables into docs/inference.md. "regard
plain" is our model as it is loaded. Nothing else should run beside this.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from inference_agree import encoder_judge, translator_judge, verdicts, writer_judge
from inference_limits import measured_limits, most_of, seconds_of, shapes
from inference_models import FOLDER, prompts, sentences, sources, writer_folder
from inference_peers import rounded_writer
from inference_table import (
    MEASURES,
    Found,
    bits,
    is_ours,
    medians,
    table,
    with_section,
)
from side_by_side import add_flags, run_worker

PAGE = Path(__file__).resolve().parents[1] / "docs" / "inference.md"
OURS = ("regard fp32", "regard bf16", "regard int8")
WRITERS = (*OURS, "llama.cpp f32", "llama.cpp f16", "llama.cpp bf16", "llama.cpp q8_0", "CTranslate2 fp32",
           "CTranslate2 int8", "transformers fp32", "transformers bf16")  # fmt: skip
ENGINES = {
    "gpt2": WRITERS,
    "gpt2-batch8": WRITERS,
    "prefill": WRITERS,
    "translation": (*OURS, "CTranslate2 fp32", "CTranslate2 int8", "transformers fp32", "transformers bf16"),
    "encoder": (*OURS, "onnxruntime fp32", "onnxruntime int8", "OpenVINO fp32", "OpenVINO bf16", "OpenVINO int8",
                "CTranslate2 fp32", "CTranslate2 int8", "transformers fp32", "transformers bf16"),
    "load": (*OURS, "CTranslate2 fp32", "CTranslate2 int8", "transformers fp32", "transformers bf16"),
}  # fmt: skip
OPENS = {
    ("writer", "regard"): "inference_peers:our_writer",
    ("writer", "transformers"): "inference_peers:transformers_writer",
    ("writer", "CTranslate2"): "inference_peers:ct2_writer",
    ("writer", "llama.cpp"): "inference_llama:llama_writer",
    ("translator", "regard"): "inference_peers:our_translator",
    ("translator", "transformers"): "inference_peers:transformers_translator",
    ("translator", "CTranslate2"): "inference_peers:ct2_translators",
    ("encoder", "regard"): "inference_peers:our_encoder",
    ("encoder", "transformers"): "inference_peers:transformers_encoder",
    ("encoder", "CTranslate2"): "inference_peers:ct2_encoders",
    ("encoder", "onnxruntime"): "inference_encoders:onnxruntime_encoders",
    ("encoder", "OpenVINO"): "inference_encoders:openvino_encoders",
}
"""(model, library) -> what opens it: one function, or a list with one for each setting."""
LIBRARIES = {
    "regard": ("regard.api", "regard.runtime.compiled"), "transformers": ("transformers.models.gpt2.modeling_gpt2",),
    "CTranslate2": ("ctranslate2",), "llama.cpp": ("llama_cpp",),
}  # fmt: skip
"""What is imported before loading is timed."""
PACKAGES = ("torch", "numba", "llama_cpp_python", "ctranslate2", "onnxruntime", "openvino", "transformers")
JUDGED = 32
"""Tokens that are judged after a prompt of which only the first is timed."""


def open_engine(model: str, engine: str) -> list[Callable]:
    """One function for each setting of the engine."""
    library, kind = engine.split()
    where, name = OPENS[model, library].split(":")
    found = getattr(import_module(where), name)(kind)
    return found if isinstance(found, list) else [found]


# ---------------------------------------------------------------- the works


def work_writer(work: str, engine: str, seconds: float) -> dict:
    """Tokens a second of the whole, and without the prompt."""
    (write,) = open_engine("writer", engine)
    rows, length, count = shapes(work)
    given = prompts(rows, length)
    said = write(given, count)  # warm
    whole, begun = seconds_of(lambda: write(given, count), seconds), seconds_of(lambda: write(given, 1), seconds / 5)
    if count == 1:
        return {"values": [rows * length / whole], "said": write(given, JUDGED)}
    return {"values": [rows * count / whole, rows * (count - 1) / (whole - begun)], "said": said}


def work_translation(work: str, engine: str, seconds: float) -> dict:
    """Sentences a second greedily and by a beam of 4, milliseconds of one alone: the best setting of each."""
    given, rates = sources(), []
    for translate in open_engine("translator", engine):
        said, _, _ = translate(given, 1), translate(given[:8], 4), translate(given[:1], 1)  # warm
        greedy, beam = (seconds_of(partial(translate, given, size), seconds / 2) for size in (1, 4))
        alone = [seconds_of(partial(translate, [one], 1), seconds / 20) for one in given[:5]]
        rates.append((len(given) / greedy, len(given) / beam, -1_000 * statistics.median(alone)))
    return {"values": [abs(max(values)) for values in zip(*rates, strict=True)], "said": said}


def work_encoder(work: str, engine: str, seconds: float) -> dict:
    """Sentences a second: the best setting."""
    texts, rates = sentences(), []
    for encode in open_engine("encoder", engine):
        vectors = encode(texts)
        encode(texts)  # some compile for each shape, and some on the second run
        rates.append(len(texts) / seconds_of(partial(encode, texts), seconds / 2))
    return {"values": [max(rates)], "said": vectors.tolist()}


def work_load(work: str, engine: str, seconds: float) -> dict:
    """Seconds to open, and from the start of the process to a first token; the most memory it held, in MiB."""
    for library in LIBRARIES[engine.split()[0]]:
        import_module(library)
    started = time.perf_counter()
    (write,) = open_engine("writer", engine)
    loading = time.perf_counter() - started
    rows, length, count = shapes(work)
    given = prompts(rows, length)
    write(given, count)
    lived = since_start()
    status = Path("/proc/self/status").read_text()
    held = re.search(r"VmHWM:\s+(\d+)", status)
    assert held is not None
    return {"values": [loading, lived, int(held[1]) / 1024], "said": write(given, JUDGED)}


def since_start() -> float:
    """Seconds this process has lived."""
    ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


RUNS: dict[str, Callable[[str, str, float], dict]] = {
    "gpt2": work_writer, "gpt2-batch8": work_writer, "prefill": work_writer, "translation": work_translation,
    "encoder": work_encoder, "load": work_load,
}  # fmt: skip


def judge_of(work: str) -> Callable[[Any], Any]:
    """What a work's outputs are held against."""
    if work == "translation":
        return translator_judge()
    if work == "encoder":
        return encoder_judge()
    rows, length, _ = shapes(work)
    return writer_judge(prompts(rows, length))


# ---------------------------------------------------------------- rounds


def ready(work: str, engines: Iterable[str]) -> list[str]:
    """The engines that can be opened, with what they need made; the others are told of."""
    model = {"translation": "translator", "encoder": "encoder"}.get(work, "writer")
    found = []
    if model == "writer":
        writer_folder()
    for engine in engines:
        try:
            if not is_ours(engine):
                open_engine(model, engine)
            elif model == "writer" and engine.split()[1] in ("bf16", "int8"):
                rounded_writer(engine.split()[1])
            found.append(engine)
        except (ImportError, RuntimeError) as error:
            print(f"  {work}: without {engine}: {error}", file=sys.stderr)
    return found


def run(work: str, arguments: argparse.Namespace) -> Found:
    """All rounds of one work."""
    engines = ready(work, [one for one in arguments.engines or ENGINES[work] if fits(work, one)])
    rounds: dict[str, list[list[float]]] = {engine: [] for engine in engines}
    said: dict[str, Any] = {}
    limits = measured_limits()
    for _ in range(arguments.rounds):
        for engine in engines:
            if (outcome := run_worker(__file__, engine, work, arguments)) is None:
                continue
            rounds[engine].append(outcome["values"])
            said[engine] = outcome["said"]
            told = ", ".join(f"{value:,.1f} {measure.unit}" for value, measure in
                             zip(outcome["values"], MEASURES[work], strict=True))  # fmt: skip
            print(f"  {work:12} {engine:18} {told}", file=sys.stderr)
    limits = limits.or_better(measured_limits())  # one that was measured while something else ran would be no limit
    agrees, unlike = verdicts(work, said, bits, judge_of(work))
    return Found(work, medians(rounds), limits, most_of(work, limits), agrees, unlike)


def fits(work: str, engine: str) -> bool:
    """Whether the engine does that work."""
    return engine in ENGINES[work] or engine == "regard plain" or (work == "load" and engine in WRITERS)


def facts(found: Found, rounds: int) -> str:
    """What a table holds for."""
    from regard.machine import describe_machine

    machine, limits = describe_machine(), found.limits
    rates = ", ".join(f"{name} {limits.flops[width] / 1e9:,.0f}" for name, width in
                      (("float32", 32), ("bfloat16", 16), ("int8", 8)))  # fmt: skip
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return (
        f"`python bench/inference.py --work {found.work} --rounds {rounds}` on {machine.threads} of {machine.cores} "
        f"cores of {machine.cpu}, {machine.instruction_set}; memory read at {limits.read / 1e9:.0f} GB/s, products at "
        f"{rates} GFLOP/s; {', '.join(versions)}.\n"
    )


def main() -> None:
    """Run the works and print, or write, their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser)
    parser.add_argument("--work", nargs="+", choices=tuple(RUNS), default=list(RUNS))
    parser.add_argument("--folder", type=Path, help="where what is made for the engines is, or is to be kept (3 GB)")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/inference.md")
    parser.add_argument("--size", help=argparse.SUPPRESS)
    parser.set_defaults(seconds=5.0)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(RUNS[arguments.size](arguments.size, arguments.worker, arguments.seconds)))
        return
    if unknown := {*(arguments.engines or ())} - {"regard plain", *(one for some in ENGINES.values() for one in some)}:
        parser.error(f"no engine is called {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as own:
        folder = (arguments.folder or Path(own)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[FOLDER] = str(folder)
        for work in arguments.work:
            found = run(work, arguments)
            text = f"{table(found)}\n{facts(found, arguments.rounds)}"
            print(f"\n{work}\n{text}")
            if arguments.write:
                before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
                PAGE.write_text(with_section(before, work, text), encoding="utf-8")


if __name__ == "__main__":
    main()
