"""Service parameters: the version and the extensions of a request."""

import json
from pathlib import Path

import pytest

from trio_a2a.errors import VersionNotSupportedError
from trio_a2a.wire.headers import choose_version, parse_extensions

VECTORS = Path(__file__).parents[1] / "contract" / "data" / "vectors"


def cases(name):
    return json.loads((VECTORS / name).read_text())["cases"]


@pytest.mark.requirement("C-153")
@pytest.mark.parametrize("case", cases("version_header.json"), ids=lambda case: f"{case['header']}-{case['served']}")
def test_the_version_vectors_hold(case):
    if case["result"] == "error":
        with pytest.raises(VersionNotSupportedError) as caught:
            choose_version(case["header"], case["served"])
        assert caught.value.metadata["requested"] == case["interpretedAs"]
    else:
        assert choose_version(case["header"], case["served"]) == case["result"]


def test_a_version_that_is_not_served_is_named_with_those_that_are():
    with pytest.raises(VersionNotSupportedError) as caught:
        choose_version("2.0", ("1.0", "0.3"))
    assert caught.value.metadata == {"requested": "2.0", "supported": "1.0, 0.3"}


def test_what_is_echoed_of_a_version_is_short_and_printable():
    with pytest.raises(VersionNotSupportedError) as caught:
        choose_version("9\x00\x1b[31m" + "x" * 1000, ("1.0",))
    requested = caught.value.metadata["requested"]
    assert requested.isprintable()
    assert len(requested) <= 20


@pytest.mark.requirement("C-165")
@pytest.mark.parametrize("case", cases("extensions_header.json"), ids=lambda case: str(case["headerLines"]))
def test_the_extension_vectors_hold(case):
    assert list(parse_extensions(case["headerLines"])) == case["uris"]
