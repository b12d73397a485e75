"""Security: how an agent wants to be called, and how it authenticates itself to webhooks."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from .value import OneOf, Value, mapping_of, sequence_of

__all__ = [
    "APIKeySecurityScheme",
    "AuthenticationInfo",
    "AuthorizationCodeOAuthFlow",
    "ClientCredentialsOAuthFlow",
    "DeviceCodeOAuthFlow",
    "HTTPAuthSecurityScheme",
    "ImplicitOAuthFlow",
    "MutualTlsSecurityScheme",
    "OAuth2SecurityScheme",
    "OAuthFlows",
    "OpenIdConnectSecurityScheme",
    "PasswordOAuthFlow",
    "SecurityRequirement",
    "SecurityScheme",
    "StringList",
]


def _strings(values: Iterable[str]) -> tuple[str, ...]:
    return sequence_of(str, values)


def _scopes(values: Mapping[str, str]) -> dict[str, str]:
    return mapping_of(str, values)


@attrs.frozen(kw_only=True)
class AuthenticationInfo(Value):
    """How the agent authenticates itself to a client's webhook.

    Attributes:
        scheme: The name of an HTTP authentication scheme, compared without regard to case.
        credentials: What the scheme needs. Secret, so not in the repr.
    """

    scheme: str
    credentials: str = attrs.field(default="", repr=False)


@attrs.frozen(kw_only=True)
class StringList(Value):
    """A list of strings; proto maps cannot hold lists directly.

    Attributes:
        list: The strings.
    """

    list: tuple[str, ...] = attrs.field(default=(), converter=_strings)


def _schemes(values: Mapping[str, StringList]) -> dict[str, StringList]:
    return mapping_of(StringList, values)


@attrs.frozen(kw_only=True)
class SecurityRequirement(Value):
    """One acceptable combination of schemes.

    Attributes:
        schemes: Name of a scheme to the scopes it needs; all entries are needed together. Empty: anonymous access.
    """

    schemes: dict[str, StringList] = attrs.field(factory=dict, converter=_schemes)


@attrs.frozen(kw_only=True)
class APIKeySecurityScheme(Value):
    """An API key in a header, a query parameter or a cookie.

    Attributes:
        description: For people.
        location: ``query``, ``header`` or ``cookie``.
        name: The name of the header, parameter or cookie.
    """

    description: str = ""
    location: str
    name: str


@attrs.frozen(kw_only=True)
class HTTPAuthSecurityScheme(Value):
    """A scheme of the Authorization header.

    Attributes:
        description: For people.
        scheme: Its IANA name, such as ``Bearer``.
        bearer_format: A hint, such as ``JWT``.
    """

    description: str = ""
    scheme: str
    bearer_format: str = ""


@attrs.frozen(kw_only=True)
class AuthorizationCodeOAuthFlow(Value):
    """The authorization code flow.

    Attributes:
        authorization_url: The authorization endpoint.
        token_url: The token endpoint.
        refresh_url: The refresh endpoint.
        scopes: Name of a scope to its description; may be empty.
        pkce_required: PKCE (RFC 7636) is mandatory.
    """

    authorization_url: str
    token_url: str
    refresh_url: str = ""
    scopes: dict[str, str] = attrs.field(converter=_scopes)
    pkce_required: bool = False


@attrs.frozen(kw_only=True)
class ClientCredentialsOAuthFlow(Value):
    """The client credentials flow.

    Attributes:
        token_url: The token endpoint.
        refresh_url: The refresh endpoint.
        scopes: Name of a scope to its description; may be empty.
    """

    token_url: str
    refresh_url: str = ""
    scopes: dict[str, str] = attrs.field(converter=_scopes)


@attrs.frozen(kw_only=True)
class ImplicitOAuthFlow(Value):
    """The implicit flow, deprecated.

    Attributes:
        authorization_url: The authorization endpoint.
        refresh_url: The refresh endpoint.
        scopes: Name of a scope to its description.
    """

    authorization_url: str = ""
    refresh_url: str = ""
    scopes: dict[str, str] = attrs.field(factory=dict, converter=_scopes)


@attrs.frozen(kw_only=True)
class PasswordOAuthFlow(Value):
    """The password flow, deprecated.

    Attributes:
        token_url: The token endpoint.
        refresh_url: The refresh endpoint.
        scopes: Name of a scope to its description.
    """

    token_url: str = ""
    refresh_url: str = ""
    scopes: dict[str, str] = attrs.field(factory=dict, converter=_scopes)


@attrs.frozen(kw_only=True)
class DeviceCodeOAuthFlow(Value):
    """The device code flow (RFC 8628).

    Attributes:
        device_authorization_url: The device authorization endpoint.
        token_url: The token endpoint.
        refresh_url: The refresh endpoint.
        scopes: Name of a scope to its description; may be empty.
    """

    device_authorization_url: str
    token_url: str
    refresh_url: str = ""
    scopes: dict[str, str] = attrs.field(converter=_scopes)


@attrs.frozen(kw_only=True)
class OAuthFlows(
    OneOf[
        AuthorizationCodeOAuthFlow
        | ClientCredentialsOAuthFlow
        | ImplicitOAuthFlow
        | PasswordOAuthFlow
        | DeviceCodeOAuthFlow
    ]
):
    """The one flow that is offered.

    Attributes:
        authorization_code: The authorization code flow.
        client_credentials: The client credentials flow.
        implicit: The implicit flow, deprecated.
        password: The password flow, deprecated.
        device_code: The device code flow.
    """

    _oneof: ClassVar[tuple[str, ...]] = (
        "authorization_code",
        "client_credentials",
        "implicit",
        "password",
        "device_code",
    )

    authorization_code: AuthorizationCodeOAuthFlow | None = None
    client_credentials: ClientCredentialsOAuthFlow | None = None
    implicit: ImplicitOAuthFlow | None = None
    password: PasswordOAuthFlow | None = None
    device_code: DeviceCodeOAuthFlow | None = None


@attrs.frozen(kw_only=True)
class OAuth2SecurityScheme(Value):
    """OAuth 2.0.

    Attributes:
        description: For people.
        flows: The one flow that is offered.
        oauth2_metadata_url: Where the server's metadata (RFC 8414) lie.
    """

    description: str = ""
    flows: OAuthFlows
    oauth2_metadata_url: str = ""


@attrs.frozen(kw_only=True)
class OpenIdConnectSecurityScheme(Value):
    """OpenID Connect.

    Attributes:
        description: For people.
        open_id_connect_url: Where the discovery document lies.
    """

    description: str = ""
    open_id_connect_url: str


@attrs.frozen(kw_only=True)
class MutualTlsSecurityScheme(Value):
    """A client certificate.

    Attributes:
        description: For people.
    """

    description: str = ""


@attrs.frozen(kw_only=True)
class SecurityScheme(
    OneOf[
        APIKeySecurityScheme
        | HTTPAuthSecurityScheme
        | OAuth2SecurityScheme
        | OpenIdConnectSecurityScheme
        | MutualTlsSecurityScheme
    ]
):
    """One way to authenticate, of exactly one kind.

    Attributes:
        api_key_security_scheme: An API key.
        http_auth_security_scheme: A scheme of the Authorization header.
        oauth2_security_scheme: OAuth 2.0.
        open_id_connect_security_scheme: OpenID Connect.
        mtls_security_scheme: A client certificate.
    """

    _oneof: ClassVar[tuple[str, ...]] = (
        "api_key_security_scheme",
        "http_auth_security_scheme",
        "oauth2_security_scheme",
        "open_id_connect_security_scheme",
        "mtls_security_scheme",
    )

    api_key_security_scheme: APIKeySecurityScheme | None = None
    http_auth_security_scheme: HTTPAuthSecurityScheme | None = None
    oauth2_security_scheme: OAuth2SecurityScheme | None = None
    open_id_connect_security_scheme: OpenIdConnectSecurityScheme | None = None
    mtls_security_scheme: MutualTlsSecurityScheme | None = None
