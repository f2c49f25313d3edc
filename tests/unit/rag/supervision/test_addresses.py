"""Ports that are free, and addresses a client can reach."""

from __future__ import annotations

import socket

import pytest

from rag.core.errors import ConfigurationError, PortTakenError
from rag.supervision.addresses import base_url, require_free


def test_a_free_port_is_returned_and_zero_gives_one() -> None:
    port = require_free("127.0.0.1", 0)

    assert port > 0
    assert require_free("127.0.0.1", port) == port


def test_a_port_that_something_listens_on_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()

        with pytest.raises(PortTakenError, match=str(other.getsockname()[1])):
            require_free("127.0.0.1", other.getsockname()[1])


def test_an_address_of_another_machine_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError):
        require_free("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("localhost", "http://localhost:80"),
    ],
)
def test_a_client_gets_an_address_that_it_can_reach(host: str, url: str) -> None:
    assert base_url(host, 80) == url
