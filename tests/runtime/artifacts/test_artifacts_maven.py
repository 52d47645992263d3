"""Jars by coordinates: what mvn and Ivy are asked, which mirror is taken, what Java is told to trust."""

import hashlib
import shutil
import ssl
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import ivy, maven, sums, tool, trust
from fencepost.harness.runtime.artifacts.java import find_java
from tests.runtime.artifacts.artifact_tools import Tools

#: Copies the pom aside and leaves two jars where it is told to.
_MVN = """
for word; do case $word in -DoutputDirectory=*) out=${word#*=};; esac; done
cp "$out/pom.xml" "$0.pom"
echo b > $out/b-2.jar; echo a > $out/a-1.jar
"""
_POM = {"p": "http://maven.apache.org/POM/4.0.0"}


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Tools(tmp_path / "tools", monkeypatch)


def test_mvn_is_asked_once_and_never_again(tools: Tools, tmp_path: Path) -> None:
    tools.add("mvn", _MVN)
    found = maven.jars(["g:a:1", "h:b:2"], exclude=["io.netty:*"])
    assert [jar.name for jar in found] == ["a-1.jar", "b-2.jar"]
    assert len(tools.calls) == 1
    assert "-DincludeScope=runtime" in tools.calls[0]
    pom = ElementTree.parse(tmp_path / "tools" / "mvn.pom")
    assert [d.findtext("p:artifactId", None, _POM) for d in pom.iterfind(".//p:dependency", _POM)] == ["a", "b"]
    assert [e.findtext("p:groupId", None, _POM) for e in pom.iterfind(".//p:exclusion", _POM)] == ["io.netty"] * 2
    tools.add("mvn", "exit 1")
    assert maven.jars(["g:a:1", "h:b:2"], exclude=["io.netty:*"]) == found
    assert len(tools.calls) == 1


_PROJECT = "[ERROR] Failed to execute goal on project servers: Could not resolve dependencies for project f:s:pom:1"
_CENTRAL = "central (https://user:word@repo.example/m2)"
_AND_MORE = "\n[ERROR] \n[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch."


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # A release that there is not, in the words of Maven 3.8, of 3.9, and of one that remembers it.
        (
            f"\x1b[0m{_PROJECT}: Could not find artifact g:a:jar:1 in {_CENTRAL} -> [Help 1]{_AND_MORE}",
            "Could not find artifact g:a:jar:1",
        ),
        (
            f"{_PROJECT}\n[ERROR] dependency: g:a:jar:1 (compile)\n"
            f"[ERROR] \tCould not find artifact g:a:jar:1 in mirror (http://repo.example:8081/m2/)\n{_AND_MORE}",
            "Could not find artifact g:a:jar:1",
        ),
        (
            f"{_PROJECT}: Failure to find g:a:jar:1 in https://repo.example/m2 was cached in the local repository",
            "Failure to find g:a:jar:1 in its repository was cached in the local repository",
        ),
        (
            f"{_PROJECT}: g:a:jar:1 was not found in https://repo.example/m2 during a previous attempt.{_AND_MORE}",
            "g:a:jar:1 was not found in its repository during a previous attempt.",
        ),
        # A repository that is not reached.
        (
            f"{_PROJECT}: Could not transfer artifact g:a:pom:1 from/to {_CENTRAL}: repo.example: Name or service not "
            f"known -> [Help 1]{_AND_MORE}",
            "Could not transfer artifact g:a:pom:1: its repository: Name or service not known",
        ),
        (
            f"{_PROJECT}: Could not transfer artifact g:a:pom:1 from/to {_CENTRAL}: Connect to repo.example:443 "
            f"[repo.example/192.0.2.1, repo.example/2001:db8::1] failed: Connection refused{_AND_MORE}",
            "Could not transfer artifact g:a:pom:1: Connect to its repository failed: Connection refused",
        ),
        # Anything else: its first error, or what it said at last.
        (f"[ERROR] Malformed POM x: no more data -> [Help 2]{_AND_MORE}", "Malformed POM x: no more data"),
        ("The JAVA_HOME environment variable is not defined", "The JAVA_HOME environment variable is not defined"),
    ],
)
def test_of_what_mvn_says_one_line_is_said_again(tools: Tools, tmp_path: Path, words: str, said: str) -> None:
    (tmp_path / "said").write_text(words)
    tools.add("mvn", f"cat {tmp_path / 'said'}; exit 1")
    with pytest.raises(MachineError) as caught:
        maven.jars(["g:a:1"])
    assert caught.value.message == f"resolving g:a:1: `mvn` ended with 1\n  {said}"
    assert "mirror" in (caught.value.hint or "")


def test_what_ivy_says_names_no_host() -> None:
    tried = "tried\n  https://repo.example/m2/g/a/1/a-1.pom\n:: g#a;1: not found\nServer repo.example:443 refused it"
    assert tool.without_hosts(tried) == "tried\n  its repository\n:: g#a;1: not found\nServer its repository refused it"


def test_a_resolver_that_leaves_nothing_has_failed(tools: Tools) -> None:
    tools.add("mvn", "exit 0")
    with pytest.raises(MachineError, match="left no jar"):
        maven.jars(["g:a:1"])


@pytest.mark.parametrize("wrong", ["g:a", "g:a:1:2", "g:a:1 2", "../a:b:1"])
def test_what_is_no_coordinate_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="no Maven coordinate"):
        maven.jars([wrong])


def test_without_mvn_it_is_ivy(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    def retrieve(coordinates: list[str], exclude: list[str], target: Path, *, timeout_s: float) -> None:
        (target / "a-1.jar").write_text("a")

    monkeypatch.setattr(tool, "path_of", lambda name: None)
    monkeypatch.setattr(ivy, "retrieve", retrieve)
    assert [jar.name for jar in maven.jars(["g:a:1"])] == ["a-1.jar"]


def test_ivy_is_told_what_to_resolve() -> None:
    module = ElementTree.fromstring(ivy.module_of(["g:a:1", "h:b:2"], ["io.netty:*"]))
    asked = [(d.get("org"), d.get("name"), d.get("rev"), d.get("conf")) for d in module.iter("dependency")]
    assert asked == [("g", "a", "1", "default->default"), ("h", "b", "2", "default->default")]
    assert [(e.get("org"), e.get("module")) for e in module.iter("exclude")] == [("io.netty", "*")]


def test_ivy_brings_the_named_jars_alone_when_everything_is_excluded() -> None:
    module = ElementTree.fromstring(ivy.module_of(["g:a:1"], maven.EVERYTHING))
    (dependency,) = module.iter("dependency")
    assert (dependency.get("transitive"), dependency.get("conf")) == ("false", "default->master")
    assert not list(module.iter("exclude"))


def test_ivy_asks_its_own_repository_or_the_mirror(tmp_path: Path) -> None:
    plain = ElementTree.fromstring(ivy.settings_of(tmp_path, None)).find("resolvers/ibiblio")
    assert plain is not None
    assert (plain.get("m2compatible"), plain.get("root")) == ("true", None)
    mirrored = ElementTree.fromstring(ivy.settings_of(tmp_path, "https://mirror.example/m2/")).find("resolvers/ibiblio")
    assert mirrored is not None
    assert mirrored.get("root") == "https://mirror.example/m2/"


@pytest.mark.parametrize(
    ("mirrors", "expected"),
    [
        ([("central", "https://one.example/m2")], "https://one.example/m2/"),
        ([("*", "https://one.example/m2/")], "https://one.example/m2/"),
        ([("other", "https://one.example/"), ("external:*", "https://two.example/")], "https://two.example/"),
        ([("*,!central", "https://one.example/")], None),
        ([("other", "https://one.example/")], None),
        ([], None),
    ],
)
@pytest.mark.parametrize("space", ["", ' xmlns="http://maven.apache.org/SETTINGS/1.0.0"'])
def test_the_mirror_is_the_one_of_the_settings(
    tmp_path: Path, space: str, mirrors: list[tuple[str, str]], expected: str | None
) -> None:
    listed = "".join(f"<mirror><mirrorOf>{of}</mirrorOf><url>{url}</url></mirror>" for of, url in mirrors)
    settings = tmp_path / "settings.xml"
    settings.write_text(f"<settings{space}><mirrors>{listed}</mirrors></settings>")
    assert ivy.mirror_of_central(settings) == expected


def test_settings_that_are_absent_or_torn_name_no_mirror(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "settings.xml"
    assert ivy.mirror_of_central(settings) is None
    assert capsys.readouterr().err == ""
    settings.write_text("<settings>")
    assert ivy.mirror_of_central(settings) is None
    assert "is ignored" in capsys.readouterr().err


def test_the_proxy_of_the_environment_is_told_to_java(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "localhost,.example")
    assert ivy.proxy_flags() == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.example",
    ]
    monkeypatch.delenv("https_proxy")
    assert ivy.proxy_flags() == []


def _bundle(tmp_path: Path) -> Path:
    """A bundle of two real authorities, with a comment and one of them twice."""
    usual = Path(ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt")
    if not usual.is_file():
        pytest.skip("this machine has no bundle of certificate authorities")
    first, second = [ssl.DER_cert_to_PEM_cert(der) for der in trust.certificates(usual.read_bytes())[:2]]
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(f"# first\n{first}\n{second}\n{first}")
    return bundle


def test_java_reads_the_trust_store(tmp_path: Path) -> None:
    keytool = shutil.which("keytool")
    if keytool is None:
        pytest.skip("no keytool on this machine; the long test below reads the store with our own Java")
    bundle = _bundle(tmp_path)
    store = tmp_path / "store.jks"
    store.write_bytes(trust.jks(trust.certificates(bundle.read_bytes())))
    listed = subprocess.run(
        [keytool, "-list", "-keystore", str(store), "-storepass", trust.PASSWORD, "-J-Duser.language=en"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    ).stdout
    assert "2 entries" in listed
    expected = [hashlib.sha256(der).hexdigest() for der in trust.certificates(bundle.read_bytes())]
    assert [f for f in expected if f.upper() in listed.replace(":", "")] == expected


def test_our_java_trusts_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(_bundle(tmp_path)))
    flags = trust.java_flags(find_java())
    store = Path(flags[0].partition("=")[2])
    assert store.is_relative_to(tmp_path / "cache")
    assert trust.java_flags(find_java()) == flags
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.trustStore=/mine")
    assert trust.java_flags(find_java()) == []


def test_a_wrong_ssl_cert_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent"))
    with pytest.raises(MachineError, match=r"SSL_CERT_FILE: .*absent: there is no such file"):
        trust.java_flags(find_java())


def test_other_bytes_than_recorded_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jar = tmp_path / "a-1.jar"
    jar.write_bytes(b"a")
    digest = hashlib.sha256(b"a").hexdigest()
    assert sums.check([jar], {"a-1.jar": digest}) == {"a-1.jar": digest}
    with pytest.raises(MachineError, match=f"a-1.jar: expected SHA-256 {'0' * 64}, found {digest}") as caught:
        sums.check([jar], {"a-1.jar": "0" * 64})
    assert "remove" in (caught.value.hint or "")
    with pytest.raises(MachineError, match="not a recorded one"):
        sums.check([jar], {})
    with pytest.raises(MachineError, match=r"b-2\.jar cannot be found beside a-1\.jar"):
        sums.check([jar], {"a-1.jar": digest, "b-2.jar": digest})


@pytest.mark.long
def test_ivy_and_our_java_bring_the_recorded_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs the network: real resolution with an empty home and without mvn."""
    from fencepost.systems.zookeeper import versions

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tool, "path_of", lambda name: None)
    names = [jar.name for jar in versions.JARS.jars("3.6.0")]
    assert "zookeeper-3.6.0.jar" in names
    assert len(names) == len(versions.JARS.coordinates("3.6.0") or ())
