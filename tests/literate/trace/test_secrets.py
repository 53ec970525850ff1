"""Text that is secret by its name is masked, and only that."""

from __future__ import annotations

import pytest
from trace_story import variables

from readtorch.literate.trace import trace
from readtorch.literate.trace.events import dumps
from readtorch.literate.trace.secrets import is_secret, without_passwords

HIDDEN = ["s", "•••", 3]


@pytest.mark.parametrize(
    "name",
    ["password", "db_password", "PASSWD", "secret", "client_secret", "token", "authToken", "api_key", "apiKey", "API_KEY",
     "X-Api-Key", "Authorization", "AWS_SECRET_ACCESS_KEY", "aws_access_key_id", "private_key", "get_password"],
)  # fmt: skip
def test_names_of_secrets(name):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["tokens", "tokenizer", "key", "keys", "keyword", "secretary", "passing", "author", "x", "state_dict_key"]
)
def test_names_of_no_secrets(name):
    assert not is_secret(name)


def test_passwords_in_addresses():
    assert without_passwords("postgres://user:pw@host:5432/db") == "postgres://user:•••@host:5432/db"
    assert without_passwords("redis://:pw@host") == "redis://:•••@host"
    for text in ("https://example.org:80/a@b", "user:pw@host", "https://user@host/x"):
        assert without_passwords(text) == text


SAMPLE = """
def get_token(box):
    return box["deep"]["api_key"]

def f(password, box):
    token = 17
    secret = [password]
    secret.append(password)
    headers = {"Authorization": "Bearer hunter2", "accept": "text"}
    got = dict(box)
    url = "postgres://me:hunter2" + "x" * 90 + "@host/db"
    result = get_token(box)
    return token
"""


def recorded(module, mechanism, **options):
    sample = module(SAMPLE)
    with trace("traced_sample", values="summary", mechanism=mechanism, **options) as t:
        sample.f("hunter2", {"deep": {"api_key": "sesame"}, "plain": b"bytes"})
    t.validate()
    return t


def test_what_is_masked(module, mechanism):
    seen = variables(recorded(module, mechanism), "f", 8)
    assert seen["password"] == HIDDEN
    assert seen["token"] == ["n", 17]
    assert seen["secret"] == ["c", "list", 2, [HIDDEN, HIDDEN]]
    assert seen["headers"][3] == [[["s", "Authorization", 13], HIDDEN], [["s", "accept", 6], ["s", "text", 4]]]
    assert seen["got"][3][0][1][3] == [[["s", "api_key", 7], HIDDEN]]
    assert seen["got"][3][1][1] == ["y", b"bytes".hex(" "), 5]
    assert seen["url"][1] == "postgres://me:•••@host/db"


def test_values_of_no_secret_name_are_in_the_document_and_masked_ones_are_not(module, mechanism):
    t = recorded(module, mechanism)
    values = dumps({"values": t.document["values"], "strings": t.document["strings"]})
    assert "hunter2" not in values
    assert "sesame" in values  # as `result`, whose name says nothing
    assert "hunter2" in dumps(t.document["files"])  # the source is shown as it is


def test_masking_can_be_turned_off(module, mechanism):
    seen = variables(recorded(module, mechanism, mask=False), "f", 8)
    assert seen["password"] == ["s", "hunter2", 7]
    assert seen["url"][1].startswith("postgres://me:hunter2x")
    assert seen["secret"][3][0] == ["s", "hunter2", 7]
