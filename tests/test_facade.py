"""The package's own names: there at the first use, and not before."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import trio_a2a

PACKAGE = Path(trio_a2a.__file__).parent
DEADLINE = 60


def run_python(program: str) -> str:
    """Run a program in a fresh interpreter; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_nothing_of_it():
    """Also not trio, attrs or cattrs: the command's `--help` waits for none of them."""
    program = (
        "import sys, trio_a2a\n"
        "print([m for m in sys.modules if m.startswith('trio_a2a.') or m in {'trio', 'attr', 'cattrs', 'orjson'}])"
    )
    assert run_python(program) == "[]"


@pytest.mark.parametrize("name", sorted(trio_a2a._HOMES))
def test_every_name_is_what_its_home_has(name):
    home = importlib.import_module(f"trio_a2a.{trio_a2a._HOMES[name]}")
    expected = home if trio_a2a._HOMES[name] == name else getattr(home, name)
    assert getattr(trio_a2a, name) is expected


def test_sub_packages_are_reached_through_the_package_alone():
    assert run_python("import trio_a2a; print(trio_a2a.types.Task.__name__, trio_a2a.errors.A2AError.__name__)") == (
        "Task A2AError"
    )


def test_a_star_import_brings_every_public_name_and_no_other():
    program = (
        "from trio_a2a import *\n"
        "import trio_a2a\n"
        "print(sorted(n for n in globals() if not n.startswith('__') and n != 'trio_a2a') == sorted(trio_a2a.__all__))"
    )
    assert run_python(program) == "True"


def test_every_sub_package_is_listed():
    """A new one is added to the imports and to `_SUB_PACKAGES` of `trio_a2a/__init__.py`."""
    found = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert set(trio_a2a._SUB_PACKAGES) == found | {"abc", "clock", "errors"}


def test_what_type_checkers_see_is_what_there_is():
    """The imports for type checkers and the table say the same."""
    block = next(
        node
        for node in ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    )
    seen = {
        alias.name: node.module or alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == trio_a2a._HOMES
    assert set(trio_a2a.__all__) == set(trio_a2a._HOMES) - set(trio_a2a._SUB_PACKAGES)


def test_every_name_is_listed_by_dir_before_it_is_used():
    assert run_python("import trio_a2a; print({'Agent', 'connect', 'types'} <= set(dir(trio_a2a)))") == "True"


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="module 'trio_a2a' has no attribute 'nobody'"):
        _ = trio_a2a.nobody
