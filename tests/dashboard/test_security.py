"""Every request is checked for its host, origin, method and token (rows 29 and 30 of the fault matrix)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from bohb.dashboard import create_app
from bohb.dashboard.security import HEADERS, cookie_name
from bohb.dashboard.server import address_of, check_token, is_loopback, known_names
from bohb.errors import BohbError, InvalidArgument

TOKEN = "a-token-of-sufficient-length"
PAGES = (
    "/",
    "/study?study=digits",
    "/trials?study=digits",
    "/trial?study=digits&number=1",
    "/selected?study=digits&number=1&number=2",
    "/plots?study=digits",
    "/api/trials?study=digits",
    "/compare?study=digits&study=digits+again",
    "/api/version",
    "/api/version?study=digits",
    "/api/templates",
)
METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")


@pytest.fixture(scope="module")
def open_client(journal: Path) -> Iterator[TestClient]:
    app = create_app(journal)
    yield TestClient(app, base_url="http://127.0.0.1:8321", follow_redirects=False)
    app.state.close()


@pytest.fixture
def client(journal: Path) -> Iterator[TestClient]:
    app = create_app(journal, TOKEN)
    yield TestClient(app, base_url="http://127.0.0.1:8321", follow_redirects=False)
    app.state.close()


@pytest.mark.parametrize("path", PAGES)
def test_every_page_can_be_had_from_this_machine_without_a_token(open_client: TestClient, path: str) -> None:
    assert open_client.get(path).status_code == 200
    assert open_client.head(path).status_code == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9", "localhost", "LOCALHOST:8321", "localhost.", "[::1]:8321", "[::1]"]
)
def test_this_machine_may_be_called_by_any_of_its_own_names(open_client: TestClient, host: str) -> None:
    assert open_client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8321",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "127.0.0.1@evil.example",
        "evil.example#127.0.0.1",
        "127.0.0.1, evil.example",
        "localhost/../x",
        "10.0.0.7",
        "0.0.0.0",
        "[::2]",
        "",
    ],
)
def test_another_host_is_dns_rebinding(open_client: TestClient, host: str) -> None:
    for path in ("/", "/api/version", "/static/style.css", "/nowhere"):
        assert open_client.get(path, headers={"Host": host}).status_code == 403, path


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Site": "made-up"},
    ],
    ids=lambda headers: " ".join(headers.values()) or "empty",
)
def test_other_sites_are_refused_whatever_the_method(open_client: TestClient, headers: dict[str, str]) -> None:
    for method in ("GET", "HEAD", *METHODS):
        assert open_client.request(method, "/api/version", headers=headers).status_code == 403, method


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:8321"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
)
def test_our_own_pages_and_the_address_bar_are_welcome(open_client: TestClient, headers: dict[str, str]) -> None:
    assert open_client.get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("method", METHODS)
def test_nothing_but_get_and_head_exists(open_client: TestClient, method: str) -> None:
    for path in ("/", "/study?study=digits", "/api/version", "/static/style.css", "/nowhere"):
        answer = open_client.request(method, path)
        assert answer.status_code == 405, path
        assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
        {"Cookie": f"{cookie_name(TOKEN)}={TOKEN}"},
        {"Cookie": f"token={TOKEN}"},
    ],
    ids=["nothing", "wrong", "basic", "empty", "token as cookie", "other cookie"],
)
def test_without_the_token_there_is_nothing_to_see(client: TestClient, shown: dict[str, str]) -> None:
    for path in (*PAGES, "/nowhere"):
        answer = client.get(path, headers=shown)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "digits" not in answer.text.replace("digits&amp;", "")


@pytest.mark.parametrize("wrong", ["wrong", "", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ü" * 8, "%00"])
def test_a_wrong_token_in_the_address_gets_no_cookie(client: TestClient, wrong: str) -> None:
    answer = client.get("/", params={"token": wrong})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_the_token_in_the_address_is_exchanged_once_for_a_strict_cookie(client: TestClient) -> None:
    answer = client.get("/trials", params={"study": "digits", "token": TOKEN, "q": "a&b=c"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/trials?study=digits&q=a%26b%3Dc"
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert TOKEN not in cookie
    assert client.get("/study?study=digits").status_code == 200, "the cookie is enough from now on"


def test_the_exchange_cannot_send_anybody_elsewhere(client: TestClient) -> None:
    for path in ("//evil.example/", "/\\evil.example/", "///evil.example"):
        answer = client.get(f"http://127.0.0.1:8321{path}", params={"token": TOKEN})
        location = httpx2.URL("http://127.0.0.1:8321/").join(answer.headers.get("location", "/"))
        assert location.host == "127.0.0.1", path


def test_programs_can_show_the_token_as_bearer(client: TestClient) -> None:
    assert client.get("/api/version", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_token_does_not_help_another_origin(client: TestClient) -> None:
    shown = {"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil.example"}
    assert client.get("/", headers=shown).status_code == 403
    assert client.get("/", params={"token": TOKEN}, headers={"Host": "evil.example"}).status_code == 403


def test_every_answer_bears_the_headers_that_protect_it(open_client: TestClient, client: TestClient) -> None:
    answers = [
        open_client.get(path) for path in (*PAGES, "/nowhere", "/trial?study=digits&number=x", "/static/live.js")
    ]
    answers += [open_client.post("/"), open_client.get("/", headers={"Host": "evil.example"}), client.get("/")]
    answers += [client.get("/", params={"token": TOKEN})]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, (answer.url, name)
        stored = "immutable" in answer.headers["cache-control"]
        assert stored == ("/static/" in str(answer.url) and answer.status_code == 200)


def test_a_failure_of_ours_is_a_page_with_the_same_headers(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(journal)
    monkeypatch.setattr("bohb.dashboard.pages.overview_page", lambda *_: 1 / 0)
    client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    answer = client.get("/study?study=digits")
    app.state.close()
    assert answer.status_code == 500
    assert answer.headers.items() >= {name.lower(): value for name, value in HEADERS.items()}.items()
    assert "ZeroDivisionError" not in answer.text


def test_the_policy_lets_no_script_in_but_ours() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert policy.count("unsafe-inline") == 1, "style attributes only, which plotly.js sets"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "", "127.0.0.1.example.org"])
def test_other_addresses_demand_a_token(host: str) -> None:
    with pytest.raises(InvalidArgument, match="token"):
        check_token(host, None)
    check_token(host, TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.3.2.1"])
def test_this_machine_demands_none(host: str) -> None:
    assert is_loopback(host)
    check_token(host, None)


@pytest.mark.parametrize("token", ["", "short", "with\nnewline", "mit-ümlaut"])
def test_a_poor_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidArgument, match="8 printable"):
        check_token("127.0.0.1", token)


def test_addresses_are_what_one_can_open() -> None:
    assert address_of("127.0.0.1", 8321) == "http://127.0.0.1:8321/"
    assert address_of("::1", 80, "a b/c?d&e") == "http://[::1]:80/?token=a%20b%2Fc%3Fd%26e"
    assert "0.0.0.0" not in address_of("0.0.0.0", 1)
    assert set(known_names("127.0.0.1")) == {"127.0.0.1", "localhost", "::1"}
    assert "box.example" in known_names("box.example")


@pytest.mark.parametrize(
    ("request_line", "host", "statuses"),
    [
        ("GET /static/../../errors.py HTTP/1.1", "127.0.0.1", {404}),
        ("GET /static/%2e%2e%2f%2e%2e%2ferrors.py HTTP/1.1", "127.0.0.1", {404}),
        ("GET /../../../../etc/passwd HTTP/1.1", "127.0.0.1", {404}),
        ("GET http://evil.example/ HTTP/1.1", "evil.example", {403}),
        ("GET / HTTP/1.1", "127.0.0.1\r\nHost: evil.example", {400, 403}),
        ("GET / HTTP/1.0", "evil.example", {403}),
        ("DELETE /study?study=digits HTTP/1.1", "127.0.0.1", {405}),
        ("GET /study?study=%ff%fe HTTP/1.1", "127.0.0.1", {404}),
    ],
)
def test_raw_requests_fare_no_better(server: str, request_line: str, host: str, statuses: set[int]) -> None:
    port = int(server.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(f"{request_line}\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert int(answer.split()[1]) in statuses
    assert b"root:" not in answer
    assert b"class BohbError" not in answer


def test_a_taken_port_is_said_in_one_line(journal: Path) -> None:
    from bohb.dashboard import server

    with server._listen("127.0.0.1", 0) as taken, pytest.raises(BohbError, match="another port"):
        server.serve(journal, port=taken.getsockname()[1])
    with pytest.raises(InvalidArgument, match="65535"):
        server.serve(journal, port=70000)
