"""For the tests of programs that use this package: a server in memory, short constructors, fakes, and suites.

`serve_in_memory` runs an agent and its client without sockets (the client needs the extra ``client``).

The suites are in the manner of ``trio.testing.check_*``: async functions that take what is to be checked and raise
AssertionError with a sentence. They need no test framework.
"""

from .authenticators import check_authenticator as check_authenticator
from .auths import check_auth as check_auth
from .clocks import check_clock as check_clock
from .close_handles import check_stream_close_handle as check_stream_close_handle
from .constructors import artifact as artifact, message as message, status as status, task as task
from .executors import check_agent_executor as check_agent_executor
from .hooks import HookCall as HookCall, RecordingHook as RecordingHook, check_lifecycle_hook as check_lifecycle_hook
from .in_memory import (
    IN_MEMORY_URL as IN_MEMORY_URL,
    InMemoryServer as InMemoryServer,
    open_in_memory as open_in_memory,
    serve_in_memory as serve_in_memory,
)
from .orphans import check_orphaned_tasks as check_orphaned_tasks
from .providers import check_task_state_provider as check_task_state_provider
from .push_configs import check_push_config_store as check_push_config_store
from .scripted_agent import ScriptedAgent as ScriptedAgent, Step as Step
from .stores import FlakyStore as FlakyStore, SlowStore as SlowStore
from .suites import check_event_log as check_event_log, check_task_store as check_task_store
from .transports import check_client_transport as check_client_transport

__all__ = [
    "IN_MEMORY_URL",
    "FlakyStore",
    "HookCall",
    "InMemoryServer",
    "RecordingHook",
    "ScriptedAgent",
    "SlowStore",
    "Step",
    "artifact",
    "check_agent_executor",
    "check_auth",
    "check_authenticator",
    "check_client_transport",
    "check_clock",
    "check_event_log",
    "check_lifecycle_hook",
    "check_orphaned_tasks",
    "check_push_config_store",
    "check_stream_close_handle",
    "check_task_state_provider",
    "check_task_store",
    "message",
    "open_in_memory",
    "serve_in_memory",
    "status",
    "task",
]
