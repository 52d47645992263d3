"""Kafka's messages about quotas, SCRAM credentials, ACLs and the number of partitions (see `messages`)."""

from typing import Final

from fencepost.systems.kafka.wire.fields import Body, Bool, Bytes, Float64, Int8, Int16, Int32, Text
from fencepost.systems.kafka.wire.messages import Api

# Client quotas


class QuotaEntity(Body, frozen=True):
    """A part of what a quota is for; no name means the default of its type."""

    entity_type: Text = ""
    entity_name: Text | None = None


class QuotaOp(Body, frozen=True):
    key: Text = ""
    value: Float64 = 0.0
    remove: Bool = False


class QuotaChange(Body, frozen=True):
    entity: tuple[QuotaEntity, ...] = ()
    ops: tuple[QuotaOp, ...] = ()


class AlterClientQuotasRequest(Body, frozen=True):
    entries: tuple[QuotaChange, ...] = ()
    validate_only: Bool = False


class QuotaChangeResult(Body, frozen=True):
    error_code: Int16 = 0
    error_message: Text | None = None
    entity: tuple[QuotaEntity, ...] = ()


class AlterClientQuotasResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    entries: tuple[QuotaChangeResult, ...] = ()


class QuotaFilter(Body, frozen=True):
    """`match_type`: 0 the name `match`, 1 the default, 2 any."""

    entity_type: Text = ""
    match_type: Int8 = 0
    match: Text | None = None


class DescribeClientQuotasRequest(Body, frozen=True):
    components: tuple[QuotaFilter, ...] = ()
    strict: Bool = False


class QuotaValue(Body, frozen=True):
    key: Text = ""
    value: Float64 = 0.0


class DescribedQuota(Body, frozen=True):
    entity: tuple[QuotaEntity, ...] = ()
    values: tuple[QuotaValue, ...] = ()


class DescribeClientQuotasResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None
    entries: tuple[DescribedQuota, ...] | None = ()


# SCRAM credentials


class ScramDeletion(Body, frozen=True):
    name: Text = ""
    mechanism: Int8 = 0


class ScramUpsertion(Body, frozen=True):
    name: Text = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


class AlterUserScramCredentialsRequest(Body, frozen=True):
    deletions: tuple[ScramDeletion, ...] = ()
    upsertions: tuple[ScramUpsertion, ...] = ()


class ScramChangeResult(Body, frozen=True):
    user: Text = ""
    error_code: Int16 = 0
    error_message: Text | None = None


class AlterUserScramCredentialsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    results: tuple[ScramChangeResult, ...] = ()


class ScramUser(Body, frozen=True):
    name: Text = ""


class DescribeUserScramCredentialsRequest(Body, frozen=True):
    users: tuple[ScramUser, ...] | None = ()


class ScramCredential(Body, frozen=True):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribedScramUser(Body, frozen=True):
    user: Text = ""
    error_code: Int16 = 0
    error_message: Text | None = None
    credential_infos: tuple[ScramCredential, ...] = ()


class DescribeUserScramCredentialsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None
    results: tuple[DescribedScramUser, ...] = ()


# ACLs


class AclCreation(Body, frozen=True):
    resource_type: Int8 = 0
    resource_name: Text = ""
    resource_pattern_type: Int8 = 3
    principal: Text = ""
    host: Text = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Body, frozen=True):
    creations: tuple[AclCreation, ...] = ()


class AclResult(Body, frozen=True):
    error_code: Int16 = 0
    error_message: Text | None = None


class CreateAclsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    results: tuple[AclResult, ...] = ()


class AclFilter(Body, frozen=True):
    resource_type_filter: Int8 = 0
    resource_name_filter: Text | None = None
    pattern_type_filter: Int8 = 3
    principal_filter: Text | None = None
    host_filter: Text | None = None
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(Body, frozen=True):
    filters: tuple[AclFilter, ...] = ()


class DeletedAcl(Body, frozen=True):
    error_code: Int16 = 0
    error_message: Text | None = None
    resource_type: Int8 = 0
    resource_name: Text = ""
    pattern_type: Int8 = 3
    principal: Text = ""
    host: Text = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeletedAcls(Body, frozen=True):
    error_code: Int16 = 0
    error_message: Text | None = None
    matching_acls: tuple[DeletedAcl, ...] = ()


class DeleteAclsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    filter_results: tuple[DeletedAcls, ...] = ()


class DescribeAclsRequest(Body, frozen=True):
    resource_type_filter: Int8 = 0
    resource_name_filter: Text | None = None
    pattern_type_filter: Int8 = 3
    principal_filter: Text | None = None
    host_filter: Text | None = None
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribedAcl(Body, frozen=True):
    principal: Text = ""
    host: Text = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclResource(Body, frozen=True):
    resource_type: Int8 = 0
    resource_name: Text = ""
    pattern_type: Int8 = 3
    acls: tuple[DescribedAcl, ...] = ()


class DescribeAclsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None
    resources: tuple[AclResource, ...] = ()


# The number of partitions


class PartitionsAssignment(Body, frozen=True):
    broker_ids: tuple[Int32, ...] = ()


class MorePartitions(Body, frozen=True):
    name: Text = ""
    count: Int32 = 0
    assignments: tuple[PartitionsAssignment, ...] | None = None


class CreatePartitionsRequest(Body, frozen=True):
    topics: tuple[MorePartitions, ...] = ()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class MorePartitionsResult(Body, frozen=True):
    name: Text = ""
    error_code: Int16 = 0
    error_message: Text | None = None


class CreatePartitionsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    results: tuple[MorePartitionsResult, ...] = ()


DESCRIBE_ACLS: Final = Api("DescribeAcls", 29, (1, 3), 2, DescribeAclsRequest, DescribeAclsResponse)
CREATE_ACLS: Final = Api("CreateAcls", 30, (1, 3), 2, CreateAclsRequest, CreateAclsResponse)
DELETE_ACLS: Final = Api("DeleteAcls", 31, (1, 3), 2, DeleteAclsRequest, DeleteAclsResponse)
CREATE_PARTITIONS: Final = Api("CreatePartitions", 37, (0, 3), 2, CreatePartitionsRequest, CreatePartitionsResponse)
DESCRIBE_CLIENT_QUOTAS: Final = Api(
    "DescribeClientQuotas", 48, (0, 1), 1, DescribeClientQuotasRequest, DescribeClientQuotasResponse
)
ALTER_CLIENT_QUOTAS: Final = Api(
    "AlterClientQuotas", 49, (0, 1), 1, AlterClientQuotasRequest, AlterClientQuotasResponse
)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Api(
    "DescribeUserScramCredentials",
    50,
    (0, 0),
    0,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
ALTER_USER_SCRAM_CREDENTIALS: Final = Api(
    "AlterUserScramCredentials", 51, (0, 0), 0, AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
)
