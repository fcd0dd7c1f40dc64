"""rpk's options and variables for TLS and SASL, as the properties of Kafka's clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stuntbroker.cli.shims.arguments import CommandError

SETTINGS: Final = {
    "user": "RPK_USER",
    "pass": "RPK_PASS",
    "sasl.mechanism": "RPK_SASL_MECHANISM",
    "tls.enabled": "RPK_TLS_ENABLED",
    "tls.ca": "RPK_TLS_CA",
    "tls.cert": "RPK_TLS_CERT",
    "tls.key": "RPK_TLS_KEY",
    "tls.insecure_skip_verify": "RPK_TLS_INSECURE_SKIP_VERIFY",
}
"""Setting of `-X` -> environment variable."""
OPTIONS: Final = {
    "--user": "user",
    "--password": "pass",
    "--sasl-mechanism": "sasl.mechanism",
    "--tls-enabled": "tls.enabled",
    "--tls-truststore": "tls.ca",
    "--tls-cert": "tls.cert",
    "--tls-key": "tls.key",
    "--tls-insecure-skip-verify": "tls.insecure_skip_verify",
}
"""Option -> setting of `-X`."""
FLAGS: Final = ("--tls-enabled", "--tls-insecure-skip-verify")
"""Options without a value, or with one behind an equals sign, as in Go."""
MECHANISM_DEFAULT: Final = "SCRAM-SHA-256"


def client_properties_of(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the client properties for settings of `-X` and, where these lack one, for variables. Raises CommandError."""
    settings = {name: given.get(name, environ.get(variable, "")) for name, variable in SETTINGS.items()}
    is_unverified = settings["tls.insecure_skip_verify"].lower() == "true"
    has_tls = settings["tls.enabled"].lower() == "true" or is_unverified
    has_tls = has_tls or any(settings[name] for name in ("tls.ca", "tls.cert", "tls.key"))
    has_sasl = bool(settings["user"])
    for name in ("pass", "sasl.mechanism"):
        if settings[name] and not has_sasl:
            raise CommandError(f"-X {name} needs -X user")
    properties = {"security.protocol": f"{'SASL_' if has_sasl else ''}{'SSL' if has_tls else 'PLAINTEXT'}"}
    if has_sasl:
        user, password = (_quoted(settings[name]) for name in ("user", "pass"))
        properties["sasl.mechanism"] = settings["sasl.mechanism"].upper() or MECHANISM_DEFAULT
        properties["sasl.jaas.config"] = f"LoginModule required username={user} password={password};"
    if is_unverified:
        properties["enable.ssl.certificate.verification"] = "false"
    if settings["tls.ca"]:
        properties["ssl.truststore.location"] = settings["tls.ca"]
    if settings["tls.cert"] or settings["tls.key"]:
        properties["ssl.keystore.key"] = _content(settings["tls.key"], "tls.key")
        if settings["tls.cert"] != settings["tls.key"]:  # One file may have both.
            properties["ssl.keystore.certificate.chain"] = _content(settings["tls.cert"], "tls.cert")
    return properties


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _content(path: str, name: str) -> str:
    if not path:
        raise CommandError("-X tls.cert and -X tls.key need each other")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as fault:
        raise CommandError(f"-X {name}={path}: {getattr(fault, 'strerror', None) or fault}") from None
