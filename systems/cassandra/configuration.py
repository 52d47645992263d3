"""How a Cassandra server starts: command line, cassandra.yaml, logback.xml.

The class runs directly, without the scripts of a distribution. Settings that differ from a production server, and why:
every node is a seed and has one token, so that all start at once; no waiting for gossip to settle; time-outs shorter
than the clients'; small heap, caches and memtables; no JMX. Commit logs are synchronised as in production.

Every server gets its clock from the machine and stamps writes that come without a timestamp, as the clients' do.
"""

import re
from collections.abc import Mapping
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.releases import is_before
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.java.java_releases import java_command
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.artifacts.java import QUICK_FLAGS
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.cassandra.options import AfterCrash, CassandraOptions, ListsBy

MAIN_CLASS: Final = "org.apache.cassandra.service.CassandraDaemon"
CLIENT_PORT: Final = 9042
PEER_PORT: Final = 7000
LISTENERS: Final[Mapping[str, int]] = {"client": CLIENT_PORT, "peer": PEER_PORT}
CASSANDRA: Final = "cassandra"

_FIRST_WITH_ACCORD: Final = (6, 0)
_POLICIES: Final[Mapping[AfterCrash, str]] = {
    AfterCrash.EXIT: "EXIT",
    AfterCrash.UNSAFE: "ALLOW_UNSAFE_STARTUP",
    AfterCrash.REBOOTSTRAP: "REBOOTSTRAP",
}
_YAML: Final = "cassandra.yaml"
_LOGBACK: Final = "logback.xml"
#: The packages of Java itself that Cassandra reaches into; conf/jvm17-server.options and conf/jvm11-server.options.
_EXPORTS: Final = (
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.util",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
)
_OPENS: Final = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
_JVM_FLAGS: Final = (
    "-Xss512k",
    *QUICK_FLAGS,
    *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTS),
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
    "-Djava.net.preferIPv4Stack=true",
    # They shorten the start: no pause for a ring that others could be changing, nothing computed that is known.
    "-Dcassandra.ring_delay_ms=100",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.schema_delay_ms=0",
    # A node that missed a change of the schema asks for it after a second, not after a minute.
    "-Dcassandra.schema_pull_interval_ms=1000",
    "-Dcassandra.superuser_setup_delay_ms=-1",
    "-Dcassandra.memtable.row_overhead_size=181",
    "-Dcassandra.disable_tcactive_openssl=true",
    "-Dcassandra.test.ignore_sigar=true",
    "-Dcassandra-foreground=yes",
    # A node answers what it alone holds.
    "-Dcassandra.enable_nodelocal_queries=true",
)
_LOGBACK_TEXT: Final = """<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="console"/></root>
</configuration>
"""
#: The same on every server.
_FIXED: Final[Mapping[str, object]] = {
    "cluster_name": "fencepost",
    "num_tokens": 1,
    "auto_bootstrap": "false",
    "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
    "endpoint_snitch": "SimpleSnitch",
    "commitlog_segment_size": "4MiB",
    "commitlog_total_space": "64MiB",
    "memtable_heap_space": "32MiB",
    "memtable_offheap_space": "32MiB",
    "file_cache_size": "16MiB",
    "key_cache_size": "0MiB",
    "concurrent_reads": 16,
    "concurrent_writes": 16,
    "concurrent_counter_writes": 2,
}
_SEEDS: Final = re.compile(r"seeds: '([^']*)'")
#: Two to the power of 64 tokens, from the least one on.
_TOKENS: Final = 1 << 64
_LEAST_TOKEN: Final = -(1 << 63)


#: What a start-up archive depends on.
PROGRAM: Final = (*_JVM_FLAGS, MAIN_CLASS)


def _argv(place: Place, artifacts: Artifacts, heap_mib: int) -> tuple[str, ...]:
    folder, data = place.folder, place.data
    own = (
        f"-Xms{heap_mib}m",
        f"-Xmx{heap_mib}m",
        f"-Dcassandra.config=file://{folder / _YAML}",
        f"-Dcassandra.storagedir={data}",
        f"-Dlogback.configurationFile=file://{folder / _LOGBACK}",
        # Libraries unpack native code there.
        f"-Djava.io.tmpdir={data}",
    )
    return (*java_command(artifacts), *_JVM_FLAGS, *own, "-cp", artifacts.paths["classpath"], MAIN_CLASS)


def _files(place: Place, layout: Layout, options: CassandraOptions, settings: Settings, release: str) -> dict[str, str]:
    """The configuration files of one server; raises UsageError for an option that this release does not have."""
    data = place.data
    token = _LEAST_TOKEN + _TOKENS // len(layout) * (place.number - 1) + 1
    seed_list = ",".join(f"{other.address}:{PEER_PORT}" for other in layout.values())
    lines: dict[str, object] = {
        **_FIXED,
        "initial_token": f"'{token}'",
        "seed_provider": "[{class_name: org.apache.cassandra.locator.SimpleSeedProvider,"
        f" parameters: [{{seeds: '{seed_list}'}}]}}]",
        "listen_address": place.address,
        "rpc_address": place.address,
        "storage_port": PEER_PORT,
        "native_transport_port": CLIENT_PORT,
        "data_file_directories": f"['{data}/data']",
        "commitlog_directory": f"{data}/commitlog",
        "saved_caches_directory": f"{data}/saved_caches",
        "hints_directory": f"{data}/hints",
        "cdc_raw_directory": f"{data}/cdc",
        "paxos_variant": options.paxos_variant,
        "commitlog_sync": options.commitlog_sync,
        **_if_periodic(options),
        "read_request_timeout": f"{options.timeout.ms}ms",
        "write_request_timeout": f"{options.timeout.ms}ms",
        "cas_contention_timeout": f"{options.contention_timeout.ms}ms",
        **_of_accord(options, release),
        **settings.get(CASSANDRA, {}),
    }
    return {_YAML: "".join(f"{key}: {value}\n" for key, value in lines.items()), _LOGBACK: _LOGBACK_TEXT}


def nodes_of(spec: NodeSpec) -> int:
    """How many nodes the cluster has, by the configuration of one."""
    (seeds,) = _SEEDS.findall(spec.files[_YAML])
    return len(seeds.split(","))


def _of_accord(options: CassandraOptions, release: str) -> dict[str, str]:
    """What only releases with Accord have; servers that start together need not look 30 s for an older cluster."""
    wanted = options.transactions is ListsBy.ACCORD
    if is_before(release, _FIRST_WITH_ACCORD):
        if wanted:
            raise UsageError(
                f"Cassandra {release} has no Accord: -O transactions=accord needs 6.0",
                hint="name a later release by --version, or leave -O transactions out",
            )
        return {}
    journal = f"{{stop_marker_failure_policy: {_POLICIES[options.after_crash]}}}"
    return {"discovery_timeout": "4s", "accord": f"{{enabled: {str(wanted).lower()}, journal: {journal}}}"}


def _if_periodic(options: CassandraOptions) -> dict[str, str]:
    """The period, which a server with another kind of commit log refuses."""
    is_periodic = options.commitlog_sync == "periodic"
    return {"commitlog_sync_period": f"{options.commitlog_period.ms}ms"} if is_periodic else {}


def spec(place: Place, layout: Layout, artifacts: Artifacts, options: CassandraOptions, settings: Settings) -> NodeSpec:
    """One server of the cluster `layout` as data."""
    return NodeSpec(
        name=place.name,
        argv=_argv(place, artifacts, options.heap_mib),
        listeners=LISTENERS,
        files=_files(place, layout, options, settings, artifacts.version),
        data_limit_bytes=options.data_limit_mib << 20,
        ready_timeout_s=90.0 if is_before(artifacts.version, _FIRST_WITH_ACCORD) else 180.0,
    )
