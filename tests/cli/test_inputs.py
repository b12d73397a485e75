"""What is read to be sent."""

import io

import click
import pytest

from trio_a2a.cli import inputs
from trio_a2a.cli.inputs import read_parts


@pytest.mark.parametrize(
    ("size", "says"), [(10, None), (11, "is longer than 0 MiB; send a link to it")], ids=["whole", "too long"]
)
def test_what_has_no_end_is_read_up_to_a_bound(tmp_path, monkeypatch, size, says):
    """A device would fill the memory."""
    monkeypatch.setattr(inputs, "_MAX_INPUT", 10)
    path = tmp_path / "data.bin"
    path.write_bytes(b"x" * size)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x" * size)))
    if says is None:
        text, part = read_parts("-", [str(path)], ())
        assert (text.text, part.raw) == ("x" * size, b"x" * size)
        return
    with pytest.raises(click.UsageError, match=says):
        read_parts(None, [str(path)], ())
    with pytest.raises(click.UsageError, match="standard input is longer"):
        read_parts("-", (), ())
