"""The wire: values to bytes and back, without any input or output of its own."""

from .explain import UnknownMemberError as UnknownMemberError
from .json import from_dict as from_dict, from_json as from_json, to_dict as to_dict, to_json as to_json

__all__ = ["UnknownMemberError", "from_dict", "from_json", "to_dict", "to_json"]
