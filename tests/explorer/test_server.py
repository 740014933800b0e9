"""The server on this machine: where it listens, who may call it, how it starts from a run, how it ends."""

import http.client
import json
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import headwise as hw
from headwise import HeadMask, HeadwiseError
from headwise.engine.resuming import StoppedError
from headwise.explorer import Explorer, explore
from headwise.scoring import ScoringPlan, run_scoring
from tests.explorer.worlds import make_session, tagger
from tests.scoring.world import save_data, save_model


def request(explorer: Explorer, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    """A request as the page sends it, with other headers if given."""
    address = urlsplit(explorer.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    own = {"Origin": f"http://{address.netloc}", "Content-Type": "application/json", **headers}
    connection.request(method, f"{path}?{address.query}", None if body is None else json.dumps(body), own)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_it_listens_on_this_machine_only_and_ends(tmp_path: Path) -> None:
    with Explorer(make_session(tmp_path)) as explorer:
        address = urlsplit(explorer.url)
        assert address.hostname == "127.0.0.1"
        assert len(address.query) > 30, "a long token"
        assert request(explorer, "GET", "/")[0] == 200
        status, found = request(explorer, "POST", "/measure", {"off": ["encoder.0.2"]})
        assert status == 200
        assert json.loads(found)["off"] == 1
        assert explorer.mask.off == ("encoder.0.2",)
        assert request(explorer, "POST", "/measure", {"off": []}, Host="evil.example")[0] == 403
        assert request(explorer, "POST", "/measure", {"off": []}, Origin="http://evil.example")[0] == 403
        assert repr(explorer) == f"Explorer({explorer.url})"
    assert repr(explorer) == "Explorer(ended)"
    with pytest.raises(ConnectionRefusedError):
        request(explorer, "GET", "/")


def test_two_explorers_have_different_tokens(tmp_path: Path) -> None:
    with Explorer(make_session(tmp_path)) as one, Explorer(make_session(tmp_path)) as other:
        assert urlsplit(one.url).query != urlsplit(other.url).query


def test_closing_stops_a_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, started, ended = make_session(tmp_path), threading.Event(), threading.Event()

    def endless(off: Any, stopped: Any) -> None:
        started.set()
        while not stopped():
            pass
        ended.set()
        raise StoppedError

    monkeypatch.setattr(session, "measure", endless)
    with Explorer(session) as explorer:
        thread = threading.Thread(target=request, args=(explorer, "POST", "/measure", {"off": []}))
        thread.start()
        assert started.wait(30)
    assert ended.wait(30)
    thread.join(30)


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HeadwiseError, match=f"port: cannot listen on 127.0.0.1, port {port} .*: choose another"):
            Explorer(make_session(tmp_path), port=port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", ""])
def test_public_addresses_need_consent(host: str) -> None:
    model, tokenizer = tagger()
    with pytest.raises(HeadwiseError, match="host: other machines can reach"):
        explore(model, tokenizer, "phrasebook", task="pos", host=host)


def test_objects_in_hand(tmp_path: Path) -> None:
    model, tokenizer = tagger()
    rows = [{"words": ["cat", "sat"], "labels": ["NOUN", "VERB"], "language": "en", "split": "dev"}] * 5
    mask = HeadMask.without(hw.find_heads(model), ["encoder.0.0"])
    with hw.explore(
        model, tokenizer, hw.dataset(rows, task="pos"), limit=3, mask=mask, out=tmp_path / "kept"
    ) as explorer:
        assert explorer.mask == mask
        _, found = request(explorer, "POST", "/measure", {"off": []})
        [row] = json.loads(found)["languages"]
        assert (row["code"], row["examples"], row["difference"]) == ("en", 3, 0)
        path = json.loads(request(explorer, "POST", "/save", {"off": ["encoder.0.3"], "name": "a"})[1])["path"]
        assert Path(path).parent == tmp_path / "kept"
        assert explorer.url in explorer._repr_html_()


@pytest.mark.parametrize("baseline", ["zero", "mean"])
def test_a_run_has_model_data_languages_and_colours(tmp_path: Path, baseline: str) -> None:
    model, data, run = str(save_model(tmp_path / "model")), str(save_data(tmp_path / "data")), tmp_path / "run"
    plan = ScoringPlan(model=model, task="pos", data=data, languages="en,sw", budget=300, baseline=baseline)
    scored = run_scoring(plan, run)
    with explore(run, export_dir=tmp_path / "small") as explorer:
        session = explorer.session
        assert list(session.examples) == ["en", "sw"]
        assert session.scores["sw"].value == scored.scores["sw"].value
        off = ["encoder.0.0", "encoder.1.1"]
        expected = hw.evaluate(
            model, data=data, task="pos", languages="en,sw", split="dev", baseline=scored.means, progress=False,
            mask=HeadMask.without(session.setting.heads, off),
        )  # fmt: skip
        found = {each.code: each.value for each in session.measure(off).languages}
        assert found == {code: expected[code].results[0].value for code in ("en", "sw")}
        assert f"--data {data}" in session.commands("mask.json")[0]
        if baseline == "mean":
            with pytest.raises(HeadwiseError, match="mean outputs differ"):
                session.export(off)
