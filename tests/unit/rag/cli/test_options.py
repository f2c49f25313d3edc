"""Options shared by the commands."""

from __future__ import annotations

import click
import pytest

from rag.cli import options
from rag.cli.options import chosen_url, json_object, service_options
from rag.cli.root import run
from rag.core.records import Metric
from rag.core.types import DocumentState, FieldType, Mode


def grouped() -> click.Group:
    @click.group()
    @service_options
    def group() -> None:
        """A group."""

    @group.command()
    @service_options
    def leaf() -> None:
        """A leaf."""
        click.echo(chosen_url())

    return group


@pytest.mark.parametrize("arguments", [["--url", "http://a", "leaf"], ["leaf", "--url", "http://a"]])
def test_the_url_may_stand_before_or_after_the_command(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run(arguments, command=grouped())

    assert capsys.readouterr().out == "http://a\n"


def test_the_innermost_url_wins(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--url", "http://a", "leaf", "--url", "http://b"], command=grouped())

    assert capsys.readouterr().out == "http://b\n"


def test_the_words_of_the_options_are_those_of_the_core() -> None:
    assert set(options.MODES) == set(Mode)
    assert set(options.STATES) == set(DocumentState)
    assert set(options.METRICS) == set(Metric)
    assert set(options.FIELD_TYPES) == set(FieldType)


def test_json_on_the_command_line_must_be_an_object() -> None:
    assert json_object('{"jahr": 2024}') == {"jahr": 2024}
    with pytest.raises(click.BadParameter, match="not a JSON object"):
        json_object("[1]")
    with pytest.raises(click.BadParameter, match="at character 2"):
        json_object("{year: 2024}")
