"""Keys of card signatures: which one a signature asks for, and whether its algorithm may be used with it.

Only asymmetric algorithms are known here. With an HMAC, whoever can verify can sign, and a public key that is taken for
a secret is no secret; ``none`` is no signature at all. A key is read *as the type that the algorithm needs*, so a
signature cannot choose how a key is understood.

joserfc does the cryptography. It is an extra, imported when a signature is made or verified.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

__all__ = [
    "ALGORITHMS",
    "CardKey",
    "CardKeys",
    "UnusableKeyError",
    "candidates",
    "make_signature",
    "require_joserfc",
    "verify_signature",
]

CardKey: TypeAlias = "ECKey | OKPKey | RSAKey | Mapping[str, Any] | str | bytes"
"""A key: of joserfc, a JWK, or PEM text."""

CardKeys: TypeAlias = "CardKey | KeySet | Callable[[str, str | None], CardKey | KeySet | None]"
"""Keys to verify with: one key, a set of keys, a mapping from key id to key, or a function."""

ALGORITHMS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "ES256": ("EC", frozenset({"P-256"})),
    "ES384": ("EC", frozenset({"P-384"})),
    "EdDSA": ("OKP", frozenset({"Ed25519", "Ed448"})),
    "RS256": ("RSA", frozenset()),
    "PS256": ("RSA", frozenset()),
}
"""The algorithms, each with the type of its keys and, where it matters, their curves."""

_MIN_RSA_BITS: Final = 2048  # RFC 7518, sections 3.3 and 3.5
# No certificates: a key out of one would be used without a look at its dates.
_PEM: Final = re.compile(rb"-----BEGIN (?:[A-Z]+ )?(?:PUBLIC|PRIVATE) KEY-----")


class UnusableKeyError(ValueError):
    """A key cannot be used with the algorithm, or not be read at all."""


def require_joserfc() -> None:
    """Import joserfc.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import joserfc.jwk  # noqa: PLC0415 - an extra, needed by those who sign or verify
        import joserfc.jws  # noqa: F401, PLC0415
    except ImportError as error:
        raise ImportError("signatures of agent cards need joserfc: pip install 'trio-a2a[signing]'") from error


def candidates(keys: Any, kid: str, jku: str | None) -> Iterator[Any]:
    """Yield the keys that a signature with this key id may be verified with.

    Raises:
        TypeError: These are no keys.
    """
    from joserfc.jwk import KeySet  # noqa: PLC0415

    if keys is None:  # None from a function or for an id is an answer; in place of all keys it is a mistake
        raise _no_key(keys)
    if isinstance(keys, Mapping) and not _is_jwk(keys) and not _is_jwk_set(keys):
        keys = keys.get(kid)
    elif callable(keys):
        try:
            keys = keys(kid, jku)
        except LookupError:  # so that `some_dict.__getitem__` and the like can be wrapped
            return
    elif (own_id := _own_id(keys)) is not None and own_id != kid:
        return
    if keys is None:
        return
    if isinstance(keys, KeySet):
        yield from (key for key in keys.keys if key.kid == kid)
    elif isinstance(keys, Mapping) and _is_jwk_set(keys):
        yield from (key for key in keys["keys"] if isinstance(key, Mapping) and key.get("kid") == kid)
    else:
        yield keys


def _no_key(key: Any) -> TypeError:
    return TypeError(
        f"a key is joserfc's, a JWK or PEM text, got {type(key).__name__}; "
        "a function of keys returns one of these and cannot be async: ask key_requests() first"
    )


def _is_jwk(keys: Mapping[str, Any]) -> bool:
    return isinstance(keys.get("kty"), str)


def _is_jwk_set(keys: Mapping[str, Any]) -> bool:
    return isinstance(keys.get("keys"), (list, tuple))


def _own_id(key: Any) -> Any:
    """Return the id that a single key brings along; PEM brings none, and a set is asked later."""
    return key.get("kid") if isinstance(key, Mapping) else getattr(key, "kid", None)


def make_signature(message: bytes, key: Any, algorithm: str) -> bytes:
    """Sign.

    Raises:
        TypeError: The key is none.
        UnusableKeyError: It is not for this algorithm, or no private key.
    """
    from joserfc.jws import JWSRegistry  # noqa: PLC0415

    loaded = _loaded(key, algorithm)
    if not loaded.is_private:
        raise UnusableKeyError("signing needs the private key")
    try:
        # The table itself, not `get_alg`: that warns of EdDSA, whose new names other SDKs do not know yet.
        signature: bytes = JWSRegistry.algorithms[algorithm].sign(message, loaded)
    except Exception as error:  # the boundary to joserfc and what is below it
        raise UnusableKeyError(f"the key does not sign: {error}") from error
    return signature


def verify_signature(message: bytes, signature: bytes, key: Any, algorithm: str, now: datetime | None) -> bool:
    """Tell whether a signature is right.

    Raises:
        TypeError: The key is none.
        UnusableKeyError: It is not for this algorithm, or not valid now.
    """
    from joserfc.jws import JWSRegistry  # noqa: PLC0415

    loaded = _loaded(key, algorithm)
    _check_validity(loaded, now)
    try:
        return bool(JWSRegistry.algorithms[algorithm].verify(message, signature, loaded))
    except Exception as error:  # the boundary to joserfc and what is below it: whatever it was, nothing is verified
        raise UnusableKeyError(f"the key does not verify: {error}") from error


def _check_validity(loaded: Any, now: datetime | None) -> None:
    """Refuse a key whose JWK says that it is not valid: by `exp` and `nbf` in seconds of Unix time, or `revoked`."""
    if loaded.get("revoked") is not None:
        raise UnusableKeyError("the key is revoked")
    for name in ("exp", "nbf"):
        limit = loaded.get(name)
        if limit is None:
            continue
        if isinstance(limit, bool) or not isinstance(limit, (int, float)):
            raise UnusableKeyError(f"the key has a date that is none ({name})")
        if now is None:  # no clock here, and a key that may have expired must not be used
            raise UnusableKeyError(f"the key has a date ({name}): say what time it is (now)")
        if (now.timestamp() >= limit) if name == "exp" else (now.timestamp() < limit):
            raise UnusableKeyError("the key has expired" if name == "exp" else "the key is not valid yet")


def _loaded(key: Any, algorithm: str) -> Any:
    """Return a key as joserfc's, once it is known to fit the algorithm."""
    from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey  # noqa: PLC0415

    kind, curves = ALGORITHMS[algorithm]
    given: Any
    cls: Any = {"EC": ECKey, "OKP": OKPKey, "RSA": RSAKey}[kind]
    if isinstance(key, (ECKey, OctKey, OKPKey, RSAKey)):
        given = key.key_type
    elif isinstance(key, Mapping):
        given = key.get("kty")
    elif isinstance(key, (str, bytes)):
        pem = key.encode() if isinstance(key, str) else key
        if not _PEM.search(pem):
            raise UnusableKeyError("the key is text but no PEM of a public or private key")
        given = kind  # joserfc refuses to read it as another type
        key = pem
    else:
        raise _no_key(key)
    if given != kind:
        raise UnusableKeyError(f"{algorithm} needs a key of type {kind}, got {given}")
    try:
        loaded = key if isinstance(key, cls) else cls.import_key(dict(key) if isinstance(key, Mapping) else key)
        loaded.check_use("sig")
        loaded.check_alg(algorithm)
        curve = loaded.get("crv")
        bits = loaded.raw_value.key_size if kind == "RSA" else _MIN_RSA_BITS
    except Exception as error:  # the boundary to joserfc: keys come from files and key servers, wrong in any way
        raise UnusableKeyError(f"the key cannot be used with {algorithm}: {error}") from error
    if curves and curve not in curves:
        raise UnusableKeyError(f"{algorithm} needs a key on the curve {' or '.join(sorted(curves))}, got {curve}")
    if bits < _MIN_RSA_BITS:
        raise UnusableKeyError(f"an RSA key has at least {_MIN_RSA_BITS} bits, not {bits}")
    return loaded
