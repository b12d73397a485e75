"""Encryption at rest of what must not be read by whoever reads the database.

Fernet, with one key or several: the first encrypts, any of them decrypts, so keys can be changed one after the other.
"""

from collections.abc import Sequence
from typing import Any, final

from ...errors import TaskSerializationError

__all__ = ["Sealer"]


@final
class Sealer:
    """Encrypts and decrypts the bodies of rows.

    Args:
        keys: Fernet keys; the first one encrypts. None: nothing is encrypted.

    Raises:
        ValueError: A key is none, or the list is empty.
    """

    def __init__(self, keys: str | bytes | Sequence[str | bytes] | None) -> None:
        self._fernet: Any = None
        if keys is not None:
            self._fernet = _fernet([keys] if isinstance(keys, (str, bytes)) else list(keys))

    @property
    def seals(self) -> bool:
        """Whether bodies are encrypted."""
        return self._fernet is not None

    def seal(self, body: bytes) -> bytes:
        """Return a body as it is stored."""
        if self._fernet is None:
            return body
        sealed: bytes = self._fernet.encrypt(body)
        return sealed

    def unseal(self, body: bytes, *, is_sealed: bool, task_id: str) -> bytes:
        """Return the body of a row.

        Raises:
            TaskSerializationError: It is encrypted with another key, damaged, or encrypted where there is no key.
        """
        if not is_sealed:
            return body
        if self._fernet is None:
            raise TaskSerializationError(
                "a stored secret is encrypted, and the store was given no key", task_id=task_id
            )
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - as where the key was made

        try:
            opened: bytes = self._fernet.decrypt(bytes(body))
        except InvalidToken:
            text = "a stored secret is damaged, or encrypted with a key that the store was not given"
            raise TaskSerializationError(text, task_id=task_id) from None
        return opened


def _fernet(keys: Sequence[str | bytes]) -> Any:
    from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415 - who encrypts nothing does not pay for it

    if not keys:
        raise ValueError("encryption_key is a Fernet key or a list of them, not an empty list")
    try:
        return MultiFernet([Fernet(key) for key in keys])
    except (TypeError, ValueError):
        raise ValueError(
            "an encryption_key is 32 bytes in URL-safe base64; make one with cryptography's Fernet.generate_key()"
        ) from None
