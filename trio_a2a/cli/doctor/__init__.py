"""``trio-a2a doctor``: does an agent do what it says, and what the protocol says?

Every check asks one thing, of raw HTTP rather than of the client: what the client forgives is what is looked for. An
agent may answer with anything, so each check is bounded in time and in bytes, and fails on its own.
"""

from .examination import examine as examine

__all__ = ["examine"]
