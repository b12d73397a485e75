"""Every rule has its tests, and every mark its rule.

`requirements.json` lists the behaviours and weak points of the system that is being rebuilt, the rules of the design,
the promises of the issues and the statements of the protocol's conformance list. An entry is *kept*, *changed* (the
reason says how), *gone* (the reason says what makes it impossible) or *open* (the reason names the deliverable). All
but open ones have at least one test that is marked with their id. The marks are read from the source, so this holds
whichever part of the suite is run.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ENTRIES = json.loads((TESTS / "requirements.json").read_text(encoding="utf-8"))
STATEMENTS = json.loads((TESTS / "contract" / "data" / "conformance.json").read_text(encoding="utf-8"))["items"]
SOURCES = {"java-system", "design", "issue-2", "conformance"}
STATUSES = {"kept", "changed", "gone", "open"}


def numbered(*ranges: tuple[int, int]) -> set[str]:
    return {f"C-{number:03}" for first, last in ranges for number in range(first, last + 1)}


# The statements that may be open, by what they wait for.
WAITING = {
    "The gRPC binding": {one["id"] for one in STATEMENTS if one["binding"] == "grpc"},
    "Push delivery": {one["id"] for one in STATEMENTS if one["binding"] == "push"},
    "Full authentication": numbered((224, 228), (269, 273), (290, 290)),
    "Version 0.3": {"C-156", "C-157", "C-159"},
    "Custom bindings": numbered((295, 298)),
}


def marks_of(node: ast.AST) -> Iterator[str]:
    """The ids of every ``pytest.mark.requirement(...)`` below a node."""
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "requirement"
            and isinstance(call.func.value, ast.Attribute)
            and call.func.value.attr == "mark"
        ):
            for argument in call.args:
                # Ids are written out, so that they can be read without running the tests.
                assert isinstance(argument, ast.Constant), f"an id is a string, not {ast.unparse(argument)}"
                yield str(argument.value)


def is_test(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def marked_tests(source: str) -> dict[str, set[str]]:
    """The tests of a module by the ids that they are marked with: decorators, ``pytestmark``, and ``pytest.param``."""
    found: dict[str, set[str]] = {}
    tree = ast.parse(source)
    tests = [node for node in ast.walk(tree) if is_test(node)]

    def add(ids: Iterator[str], nodes: list[ast.AST]) -> None:
        for id_ in ids:
            names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
            found.setdefault(id_, set()).update(names)

    for scope in [tree, *[node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]]:
        inside = [node for node in ast.walk(scope) if is_test(node)]
        for statement in scope.body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in targets):
                add(marks_of(statement), inside)
        if isinstance(scope, ast.ClassDef):
            for decorator in scope.decorator_list:
                add(marks_of(decorator), inside)
    for test in tests:
        assert isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in test.decorator_list:
            add(marks_of(decorator), [test])
    return found


def all_marked_tests() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for id_, names in marked_tests(path.read_text(encoding="utf-8")).items():
            found.setdefault(id_, set()).update(f"{path.relative_to(TESTS)}::{name}" for name in names)
    return found


@pytest.mark.requirement("S7-REQUIREMENTS")
def test_every_entry_that_is_not_open_has_a_test() -> None:
    found = all_marked_tests()
    missing = [f"{e['id']}: {e['text']}" for e in ENTRIES if e["status"] != "open" and not found.get(e["id"])]
    assert not missing, "no test is marked with:\n" + "\n".join(missing)


@pytest.mark.requirement("S7-REQUIREMENTS")
def test_every_mark_has_an_entry() -> None:
    known = {entry["id"] for entry in ENTRIES}
    unknown = [f"{id_}: {', '.join(sorted(tests))}" for id_, tests in all_marked_tests().items() if id_ not in known]
    assert not unknown, "requirements.json has no:\n" + "\n".join(unknown)


@pytest.mark.requirement("S7-REQUIREMENTS")
def test_no_open_entry_has_a_test() -> None:
    """Else it is open no longer."""
    found = all_marked_tests()
    tested = [
        f"{e['id']}: {', '.join(sorted(found[e['id']]))}" for e in ENTRIES if e["status"] == "open" and e["id"] in found
    ]
    assert not tested, "open, but there are tests:\n" + "\n".join(tested)


@pytest.mark.requirement("S7-REQUIREMENTS")
def test_entries_are_well_formed() -> None:
    for entry in ENTRIES:
        assert set(entry) <= {"id", "source", "status", "text", "reason"}, entry
        assert re.fullmatch(r"[BD][1-9][0-9]*|[SI][1-9](-[A-Z0-9]+)+|C-[0-9]{3}", entry["id"]), entry
        assert entry["source"] in SOURCES, entry
        assert entry["status"] in STATUSES, entry
        assert entry["text"].endswith("."), entry
        assert (entry["status"] == "kept") == ("reason" not in entry), entry
    ids = [entry["id"] for entry in ENTRIES]
    assert len(ids) == len(set(ids))


@pytest.mark.requirement("S7-REQUIREMENTS")
def test_every_behaviour_and_weak_point_of_the_reference_is_listed() -> None:
    ids = {entry["id"] for entry in ENTRIES}
    assert {f"B{number}" for number in range(1, 77)} <= ids
    assert {f"D{number}" for number in range(1, 33)} <= ids


@pytest.mark.requirement("S7-REQUIREMENTS")
def test_every_statement_of_the_protocol_is_listed_and_open_only_where_it_waits_for_a_later_deliverable() -> None:
    entries = {entry["id"]: entry for entry in ENTRIES if entry["source"] == "conformance"}
    assert list(entries) == [statement["id"] for statement in STATEMENTS]
    assert list(entries) == sorted(numbered((1, 298)))
    for id_, entry in entries.items():
        if entry["status"] == "open":
            thing = re.fullmatch(r"(.*) (?:is|are) a later deliverable\.", entry["reason"])
            assert thing is not None, entry
            assert id_ in WAITING[thing[1]], entry


@pytest.mark.requirement("S7-REQUIREMENTS")
def test_marks_are_found_wherever_they_can_stand() -> None:
    source = """
import pytest
pytestmark = [pytest.mark.requirement("A"), pytest.mark.slow]

@pytest.mark.requirement("B", "C")
async def test_one(): ...

class TestGroup:
    pytestmark = pytest.mark.requirement("D")

    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.requirement("E"))])
    def test_two(self, x): ...

@pytest.mark.requirement("F")
class TestOther:
    def test_three(self): ...

@pytest.mark.requirement("G")
def no_test(): ...
"""
    assert marked_tests(source) == {
        "A": {"test_one", "test_two", "test_three"},
        "B": {"test_one"},
        "C": {"test_one"},
        "D": {"test_two"},
        "E": {"test_two"},
        "F": {"test_three"},
    }
