import pytest

from orthoscope.live._guard import Guard

TOKEN = "the-token"


async def nothing(*_):
    raise AssertionError("only refusals are asked for here")


def refusal(host="127.0.0.1", port=8000, method="GET", query=f"token={TOKEN}", **headers):
    given = {"host": f"127.0.0.1:{port}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": "http",
        "method": method,
        "query_string": query.encode("latin-1"),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
    }
    found = Guard(nothing, TOKEN, host, port).refusal(scope)
    return None if found is None else found[0]


def test_the_page_itself_is_let_in():
    assert refusal() is None
    assert refusal(query="", x_orthoscope_token=TOKEN) is None
    assert refusal(method="POST", origin="http://127.0.0.1:8000") is None
    for name in ("localhost:8000", "LOCALHOST:8000", "[::1]:8000"):
        assert _host(name) is None


def _host(name, listening="127.0.0.1"):
    scope = {
        "type": "http",
        "method": "GET",
        "query_string": f"token={TOKEN}".encode(),
        "headers": [(b"host", name.encode())],
    }
    found = Guard(nothing, TOKEN, listening, 8000).refusal(scope)
    return None if found is None else found[0]


@pytest.mark.parametrize(
    "query", ["", "token=", "token=the-tokeN", "token=the-token1", "tok=the-token", "token=%C3%A9"]
)
def test_a_wrong_token_is_refused(query):
    assert refusal(query=query) == 403


@pytest.mark.parametrize(
    "name",
    ["evil.example:8000", "127.0.0.1.evil.example:8000", "127.0.0.1:8001", "127.0.0.1", "", ":8000", "10.0.0.1:8000"],
)
def test_a_name_that_was_pointed_here_is_refused(name):
    assert _host(name) == 421


def test_listening_to_all_answers_by_address_but_not_by_name():
    assert _host("10.0.0.1:8000", "0.0.0.0") is None
    assert _host("evil.example:8000", "0.0.0.0") == 421
    assert _host("lab.example:8000", "lab.example") is None


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:8001", ""]
)
def test_other_sites_are_refused(origin):
    assert refusal(method="POST", origin=origin) == 403
    assert refusal(method="GET", origin=origin) == 403


def test_a_post_without_an_origin_is_refused():
    assert refusal(method="POST") == 403


def test_sizes_are_bounded():
    origin = "http://127.0.0.1:8000"
    assert refusal(query=f"token={TOKEN}&x=" + "y" * 5000) == 414
    for length in ("16385", "-1", "many"):
        assert refusal(method="POST", origin=origin, content_length=length) == 413
    assert refusal(method="POST", origin=origin, transfer_encoding="chunked") == 413
    assert refusal(method="POST", origin=origin, content_length="16384") is None
