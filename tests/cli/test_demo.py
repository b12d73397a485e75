"""`trio-a2a demo` tells the story of the README."""

from .program import run


def test_the_demo_tells_its_story_and_exits_0():
    result = run("demo")

    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    story = [
        "[client 1] subscribed",
        "[client 2] subscribed",
        "[hook] 3 subscribers: closing streams",
        "[client 3] stream closed after 0 artifacts; the task goes on",
        "[agent] sent 20 of 20 artifacts",
        "[client 4] task completed",
        "[server] stopped",
    ]
    places = [lines.index(line) for line in story]
    assert places == sorted(places)
    assert not result.stderr
