"""`regard import`, and `info` and `doctor` on what it makes and on what it reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.cli.main import main
from regard.hub.folder import load_model

Command = Callable[..., tuple[int, str, str]]
GPT2 = Callable[..., Path]


@pytest.fixture
def regard(one_thread: None, capsys: pytest.CaptureFixture[str]) -> Command:
    """`regard("info", folder)` runs a verb in this process: exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*map(str, words), "--threads", "1"])
        return code, *capsys.readouterr()

    return run


def test_what_is_imported_is_what_was_there(regard: Command, gpt2: GPT2, tmp_path: Path) -> None:
    folder, out = gpt2(), tmp_path / "out"
    code, text, err = regard("import", folder, out)
    assert (code, err) == (0, "")
    lines = [line.split() for line in text.splitlines()]
    assert ["family", "GPT-2"] in lines and ["task", "language-model"] in lines and ["licence", "unknown"] in lines
    assert f"now: regard generate {out} --prompt TEXT" in text and f"regard doctor {out}" in text
    theirs, ours = load_model(folder), load_model(out)
    one, other = theirs.model.state_dict(), ours.model.state_dict()
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert ours.about == theirs.about and ours.model.config == theirs.model.config
    for odd in ("", "  two  spaces ", "<|endoftext|>", "你好 e\u0301 🙂", "a text\n"):
        assert ours.tokenizer.encode(odd) == theirs.tokenizer.encode(odd)
    assert ours.tokenizer.roles == theirs.tokenizer.roles
    assert json.loads((out / "generation_config.json").read_text()) == {"bos_token_id": 0, "eos_token_id": [0]}


def test_import_says_it_for_programs_and_in_the_card(regard: Command, gpt2: GPT2, tmp_path: Path) -> None:
    folder, out = gpt2(auto_map={"AutoModel": "modeling_mine.Model"}), tmp_path / "a name"
    (folder / "README.md").write_text("---\r\nlanguage: en\r\nlicense: cc-by-4.0\r\n---\r\n# Theirs\r\n")
    code, text, _ = regard("import", folder, out, "--json")
    said = json.loads(text)
    assert code == 0 and said["family"] == "GPT-2" and said["license"] == "cc-by-4.0" and said["model"] == str(out)
    assert said["parameters"] == sum(p.numel() for p in load_model(folder).model.parameters())
    assert len(said["notes"]) == 1 and "auto_map" in said["notes"][0]
    card = (out / "README.md").read_text()
    for part in ("license: cc-by-4.0", "pipeline_tag: text-generation", "# a name", str(folder), said["notes"][0]):
        assert part in card
    assert f"{said['parameters']:,} parameters" in card


def test_info_is_the_same_of_both_folders(regard: Command, gpt2: GPT2, tmp_path: Path) -> None:
    folder, out = gpt2(dtype=torch.bfloat16), tmp_path / "out"
    assert regard("import", folder, out)[0] == 0
    theirs, ours = (json.loads(regard("info", place, "--json")[1]) for place in (folder, out))
    for name in ("family", "task", "head", "parameters", "transformer", "languages", "notes"):
        assert theirs[name] == ours[name]
    assert theirs["parameters"] == load_model(folder).model.config.n_parameters
    assert ours["files_bytes"]["model.safetensors"] > 1.9 * theirs["files_bytes"]["model.safetensors"]
    shown = [line.split() for line in regard("info", folder)[1].splitlines()]
    assert ["family", "GPT-2"] in shown and ["head", "language-model"] in shown and ["n_decoder_layers", "2"] in shown


def test_info_reads_no_weights(regard: Command, gpt2: GPT2) -> None:
    folder = gpt2(n_embd=48)
    before = json.loads(regard("info", folder, "--json")[1])
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-(48 * 4) :] = b"\xff" * (48 * 4)  # NaN
    (folder / "model.safetensors").write_bytes(content)
    assert json.loads(regard("info", folder, "--json")[1]) == before
    assert regard("import", folder, folder / "out")[0] == 4
    assert regard("import", folder, folder / "out", "--allow-nonfinite")[0] == 0


def test_doctor_runs_the_laws_on_both(regard: Command, gpt2: GPT2, tmp_path: Path) -> None:
    folder, out = gpt2(), tmp_path / "out"
    assert regard("import", folder, out)[0] == 0
    for place, sums in (
        (folder, "no SHA-256 sums lie in this folder (regard import writes them)"),
        (out, "every file is as its SHA-256 sum says"),
    ):
        code, text, err = regard("doctor", place, "--json")
        card = json.loads(text)
        assert code == 0, err
        assert card["files"] == sums and sum(law["outcome"] == "pass" for law in card["laws"]) > 8


def test_what_import_refuses(regard: Command, gpt2: GPT2, tmp_path: Path) -> None:
    folder, theirs = gpt2(), gpt2("theirs")
    code, _, err = regard("import", folder, theirs)
    assert code == 2 and "choose another OUT" in err and load_model(theirs).path == theirs
    code, _, err = regard("import", "someone/absent", tmp_path / "out")
    assert code == 4 and f"regard import someone/absent {tmp_path / 'out'} --download" in err
    code, _, err = regard("import", tmp_path / "absent", tmp_path / "out")
    assert code == 4 and "no model folder" in err and "--download" not in err
    code, _, err = regard("import", folder, tmp_path / "out", "--revision", "main")
    assert code == 2 and "--download" in err
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    assert regard("import", folder, tmp_path / "out")[0] == 0, "an empty folder is as good as none"
    before = (tmp_path / "out" / "MANIFEST.sha256").read_bytes()
    code, _, err = regard("import", tmp_path / "absent", tmp_path / "out")
    assert code == 2 and "new or empty folder" in err, "before any work"
    code, _, err = regard("import", gpt2("other"), tmp_path / "out" / "config.json")
    assert code == 2 and "got: a file" in err
    assert (tmp_path / "out" / "MANIFEST.sha256").read_bytes() == before
    code, _, err = regard("import", tmp_path / "out", tmp_path / "again")
    assert code == 2 and "already" in err
