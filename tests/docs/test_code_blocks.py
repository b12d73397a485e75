"""The Python of the documentation is run: each page's blocks one after the other, as a reader would type them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [p for p in PAGES if "how-to" in p.parts], ids=lambda page: page.stem)
def test_the_code_of_a_how_to_page_runs(page):
    program = "\n".join(blocks(page))

    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_the_code_of_every_page_is_python(page):
    for block in blocks(page):
        wrapped = f"async def page():\n{''.join(f'    {line}' for line in block.splitlines(keepends=True))}"
        compile(wrapped, str(page), "exec")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page):
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
