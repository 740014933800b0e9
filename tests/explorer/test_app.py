"""The web application: answers, refusals with one sentence, and one heavy request at a time."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from headwise import HeadMask
from headwise.engine.resuming import StoppedError
from headwise.explorer.app import MOST_BYTES, make_app
from headwise.explorer.session import Session
from tests.explorer.worlds import ATTACK, make_scores, make_session

HOST = "127.0.0.1:8000"
ORIGIN = f"http://{HOST}"
TOKEN = "secret"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return make_session(tmp_path_factory.mktemp("explorer"), scores=make_scores())


@pytest.fixture(scope="module")
def client(session: Session) -> Iterator[TestClient]:
    app = make_app(session, TOKEN, {HOST, "localhost:8000"})
    with TestClient(app, base_url=ORIGIN, raise_server_exceptions=False) as found:
        yield found


def post(client: TestClient, path: str, body: Any, token: str = TOKEN, **headers: str) -> Any:
    headers = {"Origin": ORIGIN, **{name.replace("_", "-"): text for name, text in headers.items()}}
    if isinstance(body, str | bytes):
        headers.setdefault("Content-Type", "application/json")
        return client.post(f"{path}?token={token}", content=body, headers=headers)
    return client.post(f"{path}?token={token}", json=body, headers=headers)


def sentence(answer: Any) -> str:
    found: str = answer.json()["error"]
    assert "\n" not in found
    return found


def test_the_page_has_the_data_and_a_strict_policy(client: TestClient, session: Session) -> None:
    answer = client.get(f"/?token={TOKEN}")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "*" not in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    start = answer.text.index('id="data">') + len('id="data">')
    data = json.loads(answer.text[start : answer.text.index("</script>", start)])
    assert data["heads"] == list(session.setting.heads.players())
    assert data["off"] == []
    assert [each["code"] for each in data["languages"]] == ["en", "sw"]
    assert data["scores"][0]["steps"][0] < 0 < data["scores"][0]["steps"][-1]
    assert ATTACK not in answer.text
    assert answer.text.count("<script") == 2


def test_a_measurement_is_that_of_the_session(client: TestClient, session: Session) -> None:
    found = post(client, "/measure", {"off": ["encoder.1.2"]})
    assert found.status_code == 200
    expected = session.measure(["encoder.1.2"])
    for row, each in zip(found.json()["languages"], expected.languages, strict=True):
        assert row == {**vars(each)}
    assert found.json()["off"] == 1
    assert found.json()["plain"] == 51
    assert session.mask.off == ("encoder.1.2",)


def test_attention_is_a_page_with_both_sentences(client: TestClient) -> None:
    body = {"sentence": f"cat {ATTACK}", "head": "encoder.2.0", "off": ["encoder.0.0"]}
    found = post(client, "/attention", body).json()
    assert "whole model" in found["page"]
    assert "with the mask" in found["page"]
    assert "<img" not in found["page"]
    assert found["tokens"] == 4


def test_a_mask_is_saved_as_toggled(client: TestClient, session: Session) -> None:
    found = post(client, "/save", {"off": ["encoder.1.2"], "name": "from-page"}).json()
    assert HeadMask.load(found["path"]).off == ("encoder.1.2",)
    assert Path(found["path"]).parent == session.out
    assert [line.split()[:2] for line in found["commands"]] == [["headwise", "eval"], ["headwise", "prune"]]


def test_a_model_is_exported_with_its_result(client: TestClient, session: Session) -> None:
    found = post(client, "/export", {"off": ["encoder.1.2"]}).json()
    assert found["folder"] == str(session.export_dir)
    assert found["after"] < found["before"]
    expected = session.measure(["encoder.1.2"]).languages
    assert [row["value"] for row in found["languages"]] == [each.value for each in expected]


@pytest.mark.parametrize(
    ("headers", "about"),
    [
        ({"Origin": "http://evil.example"}, "another page"),
        ({"Origin": "null"}, "another page"),
        ({"Origin": "http://127.0.0.1:8001"}, "another page"),
        ({"Origin": "https://127.0.0.1:8000"}, "another page"),
        ({"Origin": "http://localhost:8000"}, "another page"),
        ({"Host": "evil.example:8000"}, "host name"),
        ({"Host": "127.0.0.1"}, "host name"),
        ({"Host": "127.0.0.1:8001"}, "host name"),
        ({"Host": "evil.example:8000", "Origin": "http://evil.example:8000"}, "host name"),
    ],
)
@pytest.mark.parametrize("path", ["/measure", "/attention", "/save", "/export"])
def test_other_pages_and_hosts_are_refused(
    client: TestClient, session: Session, path: str, headers: dict[str, str], about: str
) -> None:
    answer = post(client, path, {"off": [], "name": "evil"}, **headers)
    assert answer.status_code == 403
    assert about in sentence(answer)
    assert not (session.out / "evil.json").exists()


def test_a_request_that_does_not_name_its_page_is_refused(client: TestClient) -> None:
    answer = client.post(f"/measure?token={TOKEN}", json={"off": []})
    assert answer.status_code == 403
    assert "Origin" in sentence(answer)


@pytest.mark.parametrize(
    "query", ["", "?token=", "?token=wrong", f"?token={TOKEN}x", f"?token={TOKEN}&token=x", "?tok=1"]
)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/"), ("POST", "/measure"), ("GET", "/nothing"), ("PUT", "/save")]
)
def test_without_the_token_nothing_answers(client: TestClient, method: str, path: str, query: str) -> None:
    answer = client.request(method, path + query, headers={"Origin": ORIGIN})
    assert answer.status_code == 403
    assert "token" in sentence(answer)
    assert TOKEN not in answer.text


def test_the_page_also_answers_under_the_other_name_of_this_machine(client: TestClient) -> None:
    headers = {"Host": "localhost:8000", "Origin": "http://localhost:8000"}
    assert post(client, "/measure", {"off": []}, **headers).status_code == 200


def test_web_sockets_are_closed(client: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client.websocket_connect(f"/measure?token={TOKEN}"):
        pass


@pytest.mark.parametrize(
    ("path", "body", "status", "about"),
    [
        ("/measure", "", 400, "not a valid request"),
        ("/measure", "{", 400, "not a valid request"),
        ("/measure", "[]", 400, "not a valid request"),
        ("/measure", "{}", 400, "off"),
        ("/measure", '{"off": "encoder.0.0"}', 400, "array"),
        ("/measure", '{"off": [1]}', 400, "str"),
        ("/measure", '{"off": [], "more": 1}', 400, "more"),
        ("/measure", '{"off": ["encoder.5.5"]}', 400, "no player 'encoder.5.5'"),
        ("/measure", b'{"off": ["\xff"]}', 400, "not a valid request"),
        ("/measure", "[" * 5000, 400, "not a valid request"),
        ("/attention", '{"sentence": "", "head": "encoder.0.0", "off": []}', 400, "empty"),
        ("/attention", '{"sentence": "\\ud800", "head": "encoder.0.0", "off": []}', 400, "not a valid request"),
        ("/attention", '{"sentence": "cat", "head": "<b>", "off": []}', 400, "no head '<b>'"),
        ("/attention", '{"sentence": "cat", "head": "encoder.0.0", "off": [], "target": "cat"}', 400, "targets"),
        ("/save", '{"off": [], "name": "../../etc/passwd"}', 400, "letters, digits"),
        ("/save", '{"off": [], "name": "a\\u0000b"}', 400, "letters, digits"),
        ("/export", '{"off": []}', 400, "no head is off"),
        ("/nothing", "{}", 404, "nothing at this address"),
        ("/", "{}", 405, "method"),
    ],
)
def test_malformed_requests_get_one_sentence(
    client: TestClient, path: str, body: str | bytes, status: int, about: str
) -> None:
    answer = post(client, path, body)
    assert answer.status_code == status, answer.text
    assert about in sentence(answer)


def test_bodies_that_are_too_large_or_not_json_are_refused(client: TestClient) -> None:
    large = '{"off": [' + " " * MOST_BYTES + "]}"
    assert post(client, "/measure", large).status_code == 413

    def chunks() -> Iterator[bytes]:  # without a length in the header
        for _ in range(2 + MOST_BYTES // 1024):
            yield b" " * 1024

    headers = {"Origin": ORIGIN, "Content-Type": "application/json"}
    streamed = client.post(f"/measure?token={TOKEN}", content=chunks(), headers=headers)
    assert streamed.status_code == 413
    assert "at most" in sentence(streamed)
    form = post(client, "/measure", '{"off": []}', Content_Type="text/plain")
    assert form.status_code == 415


def test_an_unexpected_error_is_one_sentence(client: TestClient, session: Session, monkeypatch: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("secret details")

    monkeypatch.setattr(session, "measure", fail)
    answer = post(client, "/measure", {"off": []})
    assert answer.status_code == 500
    assert "RuntimeError" in sentence(answer)
    assert "secret details" not in answer.text
    assert "content-security-policy" in answer.headers


def test_the_newest_request_wins(client: TestClient, session: Session, monkeypatch: Any) -> None:
    started, calls, real = threading.Event(), [], session.measure

    def slow(off: list[str], stopped: Callable[[], bool]) -> Any:
        calls.append(off)
        if off == ["encoder.0.0"]:  # runs until a newer request has arrived
            started.set()
            while not stopped():
                pass
            raise StoppedError
        return real(off, stopped)

    monkeypatch.setattr(session, "measure", slow)
    with ThreadPoolExecutor(2) as pool:
        older = pool.submit(post, client, "/measure", {"off": ["encoder.0.0"]})
        assert started.wait(30)
        saved = post(client, "/save", {"off": [], "name": "meanwhile"})
        newest = post(client, "/measure", {"off": ["encoder.0.1"]})
    assert saved.status_code == 200, "saving needs no turn"
    assert older.result().status_code == 409
    assert "newer request" in sentence(older.result())
    assert newest.status_code == 200
    assert calls == [["encoder.0.0"], ["encoder.0.1"]]
