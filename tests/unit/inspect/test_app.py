"""The page's server: what it tells of a model and its runs is what the model does; what it keeps and reopens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import regard
from regard.inspect import app as app_module
from regard.inspect.app import make_app
from regard.inspect.bundle import PAGE
from regard.inspect.desk import Kept
from regard.inspect.samples import Sample
from regard.model.equations import FORMULAS

pytestmark = pytest.mark.usefixtures("one_thread")
TEXT = "A man rides a bicycle."
open_model = partial(regard.load, device="cpu")


def client_of(*paths: Path, **options: Any) -> TestClient:
    return TestClient(make_app(paths, open_model, **options), base_url="http://127.0.0.1:8008")


@pytest.fixture(scope="module")
def client(workplace: Path) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workplace)  # its recipe names its data from here
        yield client_of(workplace / "run", asked=Sample((TEXT,)))


@pytest.fixture(scope="module")
def look(workplace: Path) -> regard.Look:
    return regard.look(workplace / "run", TEXT)


def run(client: TestClient, **more: Any) -> dict[str, Any]:
    reply = client.post("/api/run", json={"texts": [TEXT], **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


def tensors(client: TestClient, run: str, *names: str, **more: str) -> dict[str, np.ndarray]:
    reply = client.get(f"/api/runs/{run}/tensor", params={"name": names, **more})
    assert reply.status_code == 200, reply.text
    found = {}
    for one in json.loads(reply.headers["x-tensors"]):
        assert one["offset"] % 4 == 0
        count = int(np.prod(one["shape"]))
        flat = np.frombuffer(reply.content, np.dtype(one["dtype"]).newbyteorder("<"), count, one["offset"])
        found[one["name"]] = flat.reshape(one["shape"])
    return found


def test_the_page_and_its_files_and_nothing_else_are_served(client: TestClient) -> None:
    assert "regard" in client.get("/").text
    kinds = {".css": "text/css", ".js": "text/javascript", ".html": None}
    for path in PAGE.iterdir():
        reply = client.get(f"/page/{path.name}")
        if kinds[path.suffix] is None:
            assert reply.status_code == 404
        else:
            assert reply.content == path.read_bytes() and reply.headers["content-type"].startswith(kinds[path.suffix])
    for path in ("/page/../app.py", "/page/%2e%2e%2fapp.py", "/page/none.js", "/page/", "/docs", "/openapi.json"):
        reply = client.get(path)
        assert reply.status_code == 404 and reply.json()["error"]["what"]


def test_every_answer_has_the_policy(client: TestClient) -> None:
    for reply in (client.get("/"), client.get("/api/model"), client.get("/none"), client.post("/api/run", content="{")):
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_the_model_is_told_as_it_is(client: TestClient, look: regard.Look, workplace: Path) -> None:
    told = client.get("/api/model").json()
    config = look.model.model.config
    assert (told["task"], told["d_model"], told["vocab_size"]) == ("translation", config.d_model, config.vocab_size)
    assert told["parameters"] == sum(p.numel() for p in look.model.model.parameters())
    assert [part["name"] for part in told["parts"]] == ["encoder.self", "decoder.self", "decoder.cross"]
    assert all(part["path"].format(layer=0) + ".weights" in look.view.tensors for part in told["parts"])
    assert set(told["functions"]) == set(FORMULAS) and told["functions"]["softmax"]["section"] == "2.3"
    asked, *others = told["examples"]
    assert asked == told["asked"] == {"texts": [TEXT], "target": None, "to": None}
    dev = (workplace / "dev.en").read_text().splitlines(), (workplace / "dev.de").read_text().splitlines()
    assert len(others) == 3 and all((one["texts"][0], one["target"]) in set(zip(*dev, strict=True)) for one in others)
    assert client.get("/api/models").json() == [{"index": 0, "name": "run", "path": told["path"]}]


def test_a_run_is_what_the_model_does(client: TestClient, look: regard.Look) -> None:
    told = run(client)
    assert told["text"] == look.text == look.model.translate([TEXT], beam=1)[0].text
    assert [token["text"] for token in told["source"]["tokens"]] == look.tokens["source"]
    written = told["target"]["writes"]
    assert [row and row["p"] for row in written] == [row and row.p for row in look.view.target.writes]
    assert all(row["top"][0][2] >= row["p"] for row in written if row)
    assert told["parts"] == ["encoder.self", "decoder.self", "decoder.cross"] and not told["edited"]
    name = "decoder.layers.0.cross_attn"
    found = tensors(client, told["id"], f"{name}.q", f"{name}.weights", "decoder.cross.norms", f"{name}.W_O")
    for each, tensor in found.items():
        assert tensor.dtype == np.float32 and np.array_equal(tensor, look.values(each)), each


def test_tensors_go_out_in_half_and_by_rows(client: TestClient, look: regard.Look) -> None:
    told = run(client)["id"]
    name = "decoder.layers.0.self_attn"
    for each in (f"{name}.weights", f"{name}.q", "decoder.layers.0.resid_out"):
        (half,) = tensors(client, told, each, dtype="float16", rows="1:3").values()
        whole = look.values(each)
        assert half.dtype == np.float16 and np.allclose(half, whole[..., 1:3, :], rtol=1e-3, atol=1e-4)
    (scores,) = tensors(client, told, f"{name}.scores", dtype="float16").values()
    assert np.isfinite(scores).all() and scores.min() == np.finfo(np.float16).min


@pytest.mark.parametrize(
    ("query", "said"),
    [("name=decoder.cross.wieghts", "did you mean decoder.cross.weights"), ("name=logits&dtype=int8", "float16"),
     ("name=logits&rows=0:10000", "no such rows"), ("name=logits&rows=3:3", "no such rows"), ("", "required"),
     ("name=logits&rows=-1:2", "no such rows"), ("name=decoder.norm.gain&rows=0:1", "no such rows")],
)  # fmt: skip
def test_a_tensor_that_cannot_be_had(client: TestClient, query: str, said: str) -> None:
    reply = client.get(f"/api/runs/{run(client)['id']}/tensor?{query}")
    assert reply.status_code == 422 and said in json.dumps(reply.json()["error"])


def test_the_same_question_is_answered_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(client, seed=7)
    with monkeypatch.context() as patch:
        patch.setattr("regard.inspect.desk.run_model", None)  # it would be missed
        assert run(client, seed=7) == first
    assert run(client, seed=8)["id"] != first["id"]
    for asked in ("tensor?name=logits", "lens", "npz", "html"):
        reply = client.get(f"/api/runs/gone/{asked}")
        assert reply.status_code == 404 and reply.json()["error"]["mend"] == "run it again"


def test_what_is_kept_is_bounded_but_holds_the_newest() -> None:
    kept: Kept[str] = Kept(10)
    for name in "abc":
        kept.put(name, name.upper(), 4)
    assert [kept.get(name) for name in "abc"] == [None, "B", "C"]
    kept.get("b")
    kept.put("d", "D", 4)
    assert [kept.get(name) for name in "bcd"] == ["B", None, "D"]
    kept.put("huge", "H", 100)
    assert [kept.get(name) for name in ("b", "d", "huge")] == [None, None, "H"]


def test_an_edit_changes_the_run_and_says_so(client: TestClient) -> None:
    told = run(client, edits=[{"kind": "head", "part": "decoder.cross", "layer": 0, "head": 1}])
    assert told["edited"] and told["request"]["edits"][0]["kind"] == "head"
    (z,) = tensors(client, told["id"], "decoder.layers.0.cross_attn.z").values()
    assert not z[1].any() and z[0].any()


def test_each_set_of_edits_is_a_run_of_its_own(client: TestClient) -> None:
    edits = ([], [{"kind": "unscaled"}], [{"kind": "no-positions"}], [{"kind": "unscaled"}, {"kind": "no-positions"}])
    ids = [run(client, edits=some)["id"] for some in edits]
    assert len(set(ids)) == 4 and run(client, edits=edits[1])["id"] == ids[1]


def test_edges_are_told_for_each_key(client: TestClient) -> None:
    told = run(client)
    asked = {"part": "decoder.cross", "layer": 0, "query": 1}
    reply = client.post(f"/api/runs/{told['id']}/edges", json=asked)
    assert reply.status_code == 200 and len(reply.json()["effects"]) == len(told["source"]["tokens"])
    reply = client.post(f"/api/runs/{told['id']}/edges", json={**asked, "layer": 9})
    assert reply.status_code == 422 and "layer" in reply.json()["error"]["where"]


def test_the_lens_has_ten_tokens_a_place_and_ends_in_what_is_written(client: TestClient) -> None:
    told = run(client)
    lens = client.get(f"/api/runs/{told['id']}/lens").json()
    assert lens["rows"] == len(told["target"]["tokens"])
    assert len(lens["top"]) == len(lens["layers"]) == len(lens["divergence"])
    assert all(len(row) == 10 for layer in lens["top"] for row in layer)
    last = [row[0][0] for row in lens["top"][-1]]
    assert last == [row["top"][0][0] if row else last[i] for i, row in enumerate(told["target"]["writes"])]
    assert np.allclose(lens["divergence"][-1], 0, atol=1e-5)


def test_roles_come_with_progress_and_are_kept(workplace: Path, tmp_path: Path) -> None:
    asked = {"sentences": 3, "part": "decoder.cross"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workplace)
        client = client_of(workplace / "run", roles_cache=tmp_path)
        *steps, last = map(json.loads, client.post("/api/roles", json=asked).text.splitlines())
        assert steps and all(0 <= step["progress"] <= step["of"] for step in steps)
        assert len(last["roles"]) == 2 and len(last["sentences"]) == 3
        (kept,) = tmp_path.iterdir()
        again = client_of(workplace / "run", roles_cache=tmp_path)
        assert [json.loads(line) for line in again.post("/api/roles", json=asked).text.splitlines()] == [last]
        kept.write_text("[1, 2")  # half written by something else
        assert json.loads(again.post("/api/roles", json=asked).text.splitlines()[-1]) == last
    wrong = client.post("/api/roles", json={"part": "decoder.nonsense"})
    assert "error" in json.loads(wrong.text.splitlines()[-1])


def test_all_can_be_taken_away(client: TestClient, look: regard.Look, tmp_path: Path) -> None:
    told = run(client)
    reply = client.get(f"/api/runs/{told['id']}/npz")
    assert 'filename="run.npz"' in reply.headers["content-disposition"]
    (tmp_path / "all.npz").write_bytes(reply.content)
    with np.load(tmp_path / "all.npz") as arrays:
        assert set(arrays) == set(look.to_numpy())
        assert all(np.array_equal(arrays[name], tensor) for name, tensor in look.to_numpy().items())
    reply = client.get(f"/api/runs/{told['id']}/html")
    assert reply.text.startswith("<!doctype html>") and "regard-data" in reply.text


def test_a_model_that_changes_is_told_and_reopened(workplace: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    final, other = (workplace / "run" / "checkpoints" / name for name in ("final", "step-000020"))
    shutil.copytree(final, model)
    client = client_of(model)
    before = client.get("/api/model").json()["hash"]
    first = run(client)
    assert (first["hash"], first["changed"]) == (before, False)
    shutil.rmtree(model)
    shutil.copytree(other, model)
    changed = run(client)  # the weights in memory, so the same run
    assert changed["changed"] and changed["id"] == first["id"]
    after = client.get("/api/model").json()["hash"]
    again = run(client)
    assert after != before and (again["hash"], again["changed"]) == (after, False) and again["id"] != first["id"]
    shutil.rmtree(model)
    assert not run(client, seed=1)["changed"], "a model that is gone is still looked at"


def test_two_models_beside_each_other(workplace: Path, model_dir: Callable[[str], Path]) -> None:
    client = client_of(workplace / "run", model_dir("stories260k"))
    assert [one["name"] for one in client.get("/api/models").json()] == ["run", "stories260k"]
    assert client.get("/api/model?model=1").json()["task"] == "language-model"
    told = client.post("/api/run", json={"texts": ["Once upon a time"], "model": 1, "max_tokens": 5}).json()
    assert told["source"] is None and told["parts"] == ["decoder.self"] and told["text"]


def test_snapshots_of_a_run_can_be_run(client: TestClient) -> None:
    found = client.get("/api/model").json()["snapshots"]
    assert found, "training keeps some"
    early, late = (run(client, snapshot=found[i]["id"]) for i in (0, -1))
    assert early["hash"] != late["hash"] and early["request"]["snapshot"] == found[0]["id"]
    reply = client.post("/api/run", json={"texts": [TEXT], "snapshot": "step-999999"})
    assert reply.status_code == 422 and found[0]["id"] in reply.json()["error"]["expected"]


def test_a_fault_of_ours_is_told_as_one(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **named: object) -> None:
        raise RuntimeError("as if")

    monkeypatch.setattr("regard.inspect.desk.run_model", broken)
    monkeypatch.setattr(app_module.traceback, "print_exception", lambda error: None)
    quiet = TestClient(client.app, base_url="http://localhost:1", raise_server_exceptions=False)
    reply = quiet.post("/api/run", json={"texts": ["another text"]})
    assert reply.status_code == 500 and "please report it" in reply.json()["error"]["mend"]
    assert reply.headers["content-security-policy"]
