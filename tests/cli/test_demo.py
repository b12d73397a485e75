"""`trio-a2a demo` tells the story of the README."""

import signal

from .program import DEADLINE, run, running


def test_ctrl_c_ends_the_demo_without_a_traceback():
    with running("demo") as process:
        assert process.stdout.readline().startswith("[server] serving")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 130
        assert not process.stderr.read()


def test_a_reader_that_goes_away_ends_the_demo_without_a_traceback():
    with running("demo") as process:
        process.stdout.close()
        assert process.wait(DEADLINE) == 1
        assert not process.stderr.read()


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
