"""What comes from elsewhere, before it is shown or becomes a name of a file."""

import io
import shlex
import sys
from pathlib import Path

import attrs
import orjson
import pytest
from hypothesis import given, strategies as st

from trio_a2a.cli.output import Output
from trio_a2a.cli.redaction import Redaction
from trio_a2a.cli.render import card_lines, parts_text, task_lines, webhook_line
from trio_a2a.cli.saving import safe_name, save_artifacts
from trio_a2a.cli.text import in_command, in_json, in_line, one_line, printable
from trio_a2a.server import agent_card
from trio_a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentProvider,
    AgentSkill,
    Artifact,
    HTTPAuthSecurityScheme,
    Message,
    Part,
    SecurityRequirement,
    SecurityScheme,
    StringList,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)


@given(st.text())
def test_printable_text_has_no_control_but_tabs_and_line_feeds(text):
    shown = printable(text)
    assert not [c for c in shown if (ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160]


@given(st.text())
def test_one_line_is_one_line_of_bounded_length(text):
    line = one_line(text, longest=20)
    assert len(line.splitlines()) <= 1
    assert len(line) <= 20


@given(st.text())
def test_a_part_of_a_line_begins_no_other_one(text):
    """An id with line feeds in it could look like a line of ours, such as the end of the task."""
    line = in_line(text)
    assert len(f"task {line}".splitlines()) == 1
    assert len(line) == len(text)


@given(st.text())
def test_an_argument_of_a_command_is_one_word_to_a_shell(text):
    """Hints are copied into shells, and agents choose the ids of tasks."""
    assert shlex.split(f"trio-a2a task get URL {in_command(text)}")[4:] == [in_line(text)]


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_is_one_harmless_line_of_the_same_meaning(value):
    """Terminals take U+009B for the beginning of an escape sequence; JSON writers leave it as it is."""
    line = in_json(orjson.dumps(value).decode())
    assert len(line.splitlines()) == 1
    assert printable(line) == line
    assert orjson.loads(line) == value


def test_json_goes_to_a_terminal_that_cannot_show_all_of_it(monkeypatch):
    """A script must not get question marks in place of what the agent said."""
    written = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", written)
    Output(as_json=True, redaction=Redaction([])).document(text="häh \u009b")
    assert orjson.loads(written.buffer.getvalue()) == {"text": "häh \u009b"}


def test_the_lines_of_a_card_and_of_a_task_are_ours():
    """What an agent calls itself cannot say that a trusted key has signed it."""
    forged = "x\nverified: signed by a trusted key"
    named = attrs.evolve(
        agent_card(forged, forged),
        supported_interfaces=[AgentInterface(url=forged, protocol_binding=forged, protocol_version=forged)],
        provider=AgentProvider(organization=forged, url=forged),
        documentation_url=forged,
        security_schemes={forged: SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))},
        capabilities=AgentCapabilities(extensions=[AgentExtension(uri=forged)]),
        default_input_modes=[forged],
    )
    hook = TaskPushNotificationConfig(task_id="t", id=forged, url=forged)
    shown = Task(id=forged, context_id=forged, status=TaskStatus(state=TaskState.COMPLETED))
    file = Part(raw=b"", filename=forged, media_type=forged)
    for line in "\n".join(
        [*card_lines(named), *task_lines(shown), webhook_line(hook), parts_text([file])]
    ).splitlines():
        assert not line.startswith("verified")


@given(st.text())
def test_a_safe_name_stays_in_its_directory_whatever_it_is_made_of(name):
    safe = safe_name(name)
    assert safe
    assert Path(safe).name == safe
    assert safe not in {".", ".."}
    assert not set(safe) & set('/\\\0<>:"|?*')
    assert len(safe.encode()) <= 230


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        ("C:\\Windows\\win.ini", "win.ini"),
        (".bashrc", "bashrc"),
        ("..", "artifact"),
        ("", "artifact"),
        ("con.txt", "_con.txt"),
        ("a\nb.txt", "a_b.txt"),
        ("x" * 300 + ".txt", "x" * 200 + ".txt"),
        ("\N{EGG}" * 300 + ".txt", "\N{EGG}" * 50 + ".txt"),
        ("x." + "\N{EGG}" * 10, "x." + "\N{EGG}" * 10),
        ("report", "report"),
    ],
)
def test_only_the_last_part_of_a_name_counts(name, safe):
    assert safe_name(name) == safe


def saved_in(directory: Path, *artifacts: Artifact) -> dict[str, bytes]:
    save_artifacts(artifacts, str(directory), Output(as_json=True, redaction=Redaction([])))
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_chunks_of_one_text_become_one_file_and_other_kinds_one_each(tmp_path):
    parts = [
        Part(text="a"),
        Part(text="b"),
        Part(raw=b"\0", media_type="image/png"),
        Part(text="c"),
        Part(text="d", media_type="text/markdown"),
        Part(raw=b"?"),
    ]
    assert saved_in(tmp_path, Artifact(artifact_id="id", name="out", parts=parts)) == {
        "out.txt": b"ab",
        "out.png": b"\0",
        "out-1.txt": b"c",
        "out.md": b"d",
        "out.bin": b"?",
    }


def test_a_name_of_any_length_in_any_script_can_be_written(tmp_path):
    """File systems count bytes."""
    artifacts = [Artifact(artifact_id="a", name="\N{EGG}" * 500, parts=[Part(text="x"), Part(raw=b"y")])] * 2
    assert len(saved_in(tmp_path, *artifacts)) == 4


def test_a_link_that_lies_in_the_directory_is_not_followed(tmp_path):
    """A dangling one, too: creating through it would make a file elsewhere."""
    outside = tmp_path / "outside"
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / "out.txt").symlink_to(outside)

    save_artifacts(
        [Artifact(artifact_id="out", parts=[Part(text="text")])],
        str(directory),
        Output(as_json=True, redaction=Redaction([])),
    )

    assert not outside.exists()
    assert (directory / "out-1.txt").read_text(encoding="utf-8") == "text"


def test_secrets_are_blanked_out_the_longest_first():
    redact = Redaction(["Bearer abcdef", "abcdefgh", "abc"])
    assert redact("Bearer abcdef, abcdef, abcdefgh, abc") == "***, ***, ***, abc"
    assert redact("see https://me:pass@example.com/x") == "see https://***@example.com/x"
    assert "abcdef" not in repr(redact)
    assert redact.inside({"abcdefgh": ["abcdef", {"x": "is abcdef"}], "n": 1}) == {
        "***": ["***", {"x": "is ***"}],
        "n": 1,
    }


def test_parts_read_as_a_person_wants_to_read_them():
    parts = [
        Part(text="one "),
        Part(text="two"),
        Part(raw=b"abc", filename="f.bin", media_type="x/y"),
        Part(url="https://example.com"),
        Part(data={"a": None}),
    ]
    assert parts_text(parts) == ('one two\n[file f.bin: 3 bytes, x/y]\n[link: https://example.com]\n{\n  "a": null\n}')


def test_a_task_is_shown_with_its_history_where_that_is_wanted():
    shown = Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=TaskState.COMPLETED),
        artifacts=[Artifact(artifact_id="a", parts=[Part(text="text")])],
        history=[Message.user("hi")],
    )
    lines = list(task_lines(shown, history=True))
    assert lines == ["task t", "context c", "user: hi", "--- a", "text", "[completed]"]
    assert "user: hi" not in list(task_lines(shown))


def test_a_card_is_shown_with_all_that_it_requires():
    card = AgentCard(
        name="Full",
        description="Has everything.",
        version="2",
        supported_interfaces=[
            AgentInterface(url="https://a", protocol_binding="JSONRPC", protocol_version="1.0", tenant="us")
        ],
        provider=AgentProvider(organization="Org", url="https://org"),
        documentation_url="https://docs",
        capabilities=AgentCapabilities(extensions=[AgentExtension(uri="https://ext", required=True)]),
        security_schemes={"http": SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))},
        security_requirements=[
            SecurityRequirement(schemes={"http": StringList(list=())}),
            SecurityRequirement(schemes={}),
        ],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="s", name="Skill", description="Does\nit.", tags=["x"])],
    )
    assert list(card_lines(card)) == [
        "Full 2",
        "Has everything.",
        "provider: Org (https://org)",
        "documentation: https://docs",
        "interfaces:",
        "  JSONRPC 1.0  https://a (tenant us)",
        "capabilities: none",
        "extension: https://ext (required)",
        "input: text/plain",
        "output: text/plain",
        "skills:",
        "  Skill (s): Does it.",
        "security: http (HTTPAuth)",
        "required: http or nothing",
        "signatures: none",
    ]
