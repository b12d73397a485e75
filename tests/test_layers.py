"""The layout: who may import whom, façades, sizes."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "trio_a2a"
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))
FACADES = [path for path in MODULES if path.name == "__init__.py" and "__all__" in path.read_text(encoding="utf-8")] + [
    PACKAGE / "abc.py",
    PACKAGE / "errors.py",
    PACKAGE / "clock.py",
    PACKAGE / "streams" / "hooks.py",
]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.requirement("S2-LAYERS", "S2-NO-TRIO", "S2-NO-WIRE")
def test_imports_go_down_only() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.requirement("S2-FACADES")
@pytest.mark.parametrize("path", FACADES, ids=module_name)
def test_every_name_that_a_facade_exports_exists_and_its_list_is_sorted(path: Path) -> None:
    module = importlib.import_module(module_name(path))
    names = list(module.__all__)
    assert len(names) == len(set(names))
    # As ruff sorts it: constants, then classes, then the rest.
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    for name in names:
        assert getattr(module, name, None) is not None, f"{module.__name__} does not have {name}"


@pytest.mark.requirement("S2-FACADES")
@pytest.mark.parametrize(
    ("facade", "names"),
    [
        ("trio_a2a.stores", {"InMemoryTaskStore"}),
        (
            "trio_a2a.streams",
            {
                "ChildQueue",
                "ChildQueueStatistics",
                "CloseReason",
                "EventQueueClosedError",
                "MainQueue",
                "MainQueueStatistics",
                "NoTaskQueueError",
                "QueueManager",
                "QueueManagerStatistics",
                "SubscriberInfo",
                "SubscriberLaggedError",
                "TaskIdMismatchError",
                "open_queue_manager",
            },
        ),
        ("trio_a2a.streams.hooks", {"CallbackHook", "CloseStreamsHook", "HookChain", "IdleTimeoutHook", "NoOpHook"}),
    ],
)
def test_a_facade_exports_what_the_design_says(facade: str, names: set[str]) -> None:
    assert names <= set(importlib.import_module(facade).__all__)


@pytest.mark.requirement("S2-ONE-IDEA")
@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_module_past_four_hundred_lines_says_why(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if text.count("\n") > 400:
        said = ast.get_docstring(ast.parse(text)) or ""
        assert re.search("400 lines|longer than others", said), (
            f"{module_name(path)} is past 400 lines: its docstring is to say so, and why"
        )


@pytest.mark.requirement("S2-ONE-IDEA")
def test_no_module_is_called_utils_helpers_or_common() -> None:
    assert not [path for path in MODULES if path.stem in {"utils", "util", "helpers", "common", "misc"}]


@pytest.mark.requirement("S4-TIME")
@pytest.mark.parametrize("path", [path for path in MODULES if path.name != "clock.py"], ids=module_name)
def test_nobody_but_the_clock_reads_the_wall(path: Path) -> None:
    """House rule 25: one function converts between the two kinds of time."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            call = f"{node.value.id}.{node.attr}"
            assert call not in {"time.time", "time.monotonic", "time.sleep", "datetime.now", "datetime.utcnow"}, call


@pytest.mark.requirement("S1-SCOPE", "S1-DETERMINISTIC")
@pytest.mark.parametrize("path", sorted((PACKAGE / "streams").glob("*.py")), ids=module_name)
def test_the_core_neither_polls_nor_sleeps_nor_detaches_tasks(path: Path) -> None:
    """No sleep in a loop, no system task, no thread-local; `sleep_until` of the next idle queue is the only timer."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"spawn_system_task", "start_thread_soon", "local"}, node.attr
            if isinstance(node.value, ast.Name) and node.value.id == "trio":
                assert node.attr != "sleep"


@pytest.mark.requirement("S2-TYPED")
def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.requirement("S7-CONTRACT-DATA")
def test_the_contract_data_is_in_the_repository() -> None:
    data = ROOT / "tests" / "contract" / "data"
    for folder in ("examples", "vectors", "data"):
        assert list((data / folder).glob("*.json")), folder
    assert (data / "conformance.json").is_file()
    for form in ("accept", "emit"):
        assert (data / "schema" / f"a2a-1.0-{form}.schema.json").is_file()
