"""For the tests of programs that use this package: short constructors, fakes, and conformance suites.

The suites are in the manner of ``trio.testing.check_*``: async functions that take what is to be checked and raise
AssertionError with a sentence. They need no test framework.
"""

from .authenticators import check_authenticator as check_authenticator
from .constructors import artifact as artifact, message as message, status as status, task as task
from .hooks import HookCall as HookCall, RecordingHook as RecordingHook, check_lifecycle_hook as check_lifecycle_hook
from .providers import check_task_state_provider as check_task_state_provider
from .push_configs import check_push_config_store as check_push_config_store
from .stores import FlakyStore as FlakyStore, SlowStore as SlowStore
from .suites import check_event_log as check_event_log, check_task_store as check_task_store

__all__ = [
    "FlakyStore",
    "HookCall",
    "RecordingHook",
    "SlowStore",
    "artifact",
    "check_authenticator",
    "check_event_log",
    "check_lifecycle_hook",
    "check_push_config_store",
    "check_task_state_provider",
    "check_task_store",
    "message",
    "status",
    "task",
]
