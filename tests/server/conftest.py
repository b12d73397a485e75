"""The databases of tests of applications that share one."""

from tests.stores.conftest import sqlite_url, url

__all__ = ["sqlite_url", "url"]
