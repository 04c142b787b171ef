"""librdkafka (confluent_kafka) makes topics as the tools of the field do, and asks the broker what such tools ask.

usage: librdkafka_topics.py ADDRESS:PORT; ends with `all good` when every answer was as wanted.
"""

import sys

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

TIMEOUT_S = 30
TAKEN = [
    {"min.insync.replicas": "1"},
    {"flush.messages": "1", "flush.ms": "0"},
    {"message.format.version": "2.8-IV0"},
    {
        "cleanup.policy": "compact,delete", "segment.bytes": "52428800", "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    },
    {
        "unclean.leader.election.enable": "false", "preallocate": "false", "segment.jitter.ms": "0",
        "index.interval.bytes": "4096", "segment.index.bytes": "10485760", "message.downconversion.enable": "true",
        "file.delete.delay.ms": "60000", "min.cleanable.dirty.ratio": "0.5", "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": "9223372036854775807", "delete.retention.ms": "86400000",
    },
    {"remote.storage.enable": "false", "local.retention.ms": "-2", "local.retention.bytes": "-2"},
    {"remote.log.copy.disable": "false", "remote.log.delete.on.disable": "false"},
    {"leader.replication.throttled.replicas": "", "follower.replication.throttled.replicas": ""},
    {"retention.ms": "0"},
    {"compression.type": "uncompressed"},
    {"message.timestamp.difference.max.ms": "3600000"},
    {"redpanda.remote.read": "false", "redpanda.remote.write": "false", "write.caching": "true", "flush.bytes": "1"},
    {"retention.local.target.ms": "86400000", "initial.retention.local.target.bytes": "1048576"},
]
REFUSED = [
    ({"remote.storage.enable": "true"}, "no tiered storage"),
    ({"redpanda.remote.read": "true"}, "no tiered storage"),
    ({"confluent.value.schema.validation": "true"}, "This broker uses no schema registry"),
    ({"local.retention.ms": "-3"}, "use a number from -2 to"),
    ({"retention.mss": "1"}, "did you mean `retention.ms`?"),
]
# What a cluster of one broker has; None has no value.
OF_THE_BROKER = {
    "authorizer.class.name": None, "auto.create.topics.enable": "true", "broker.id": "1", "broker.rack": None,
    "compression.type": "producer", "default.replication.factor": "1", "delete.topic.enable": "true",
    "inter.broker.protocol.version": None, "log.cleanup.policy": "delete",
    "log.flush.interval.messages": "9223372036854775807", "log.message.format.version": "3.0-IV1",
    "log.retention.hours": "168", "log.retention.ms": "604800000", "message.max.bytes": "1048588",
    "min.insync.replicas": "1", "node.id": "1", "num.partitions": "1", "offsets.topic.replication.factor": "1",
    "process.roles": "broker,controller", "replica.fetch.max.bytes": "1048576",
    "transaction.state.log.min.isr": "1", "transaction.state.log.replication.factor": "1",
    "unclean.leader.election.enable": "false",
}

admin = AdminClient({"bootstrap.servers": sys.argv[1]})


def create(name, config):
    admin.create_topics([NewTopic(name, 1, 1, config=config)], operation_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)


def describe(kind, name):
    [future] = admin.describe_configs([ConfigResource(kind, name)]).values()
    return future.result(TIMEOUT_S)


def main():
    for number, config in enumerate(TAKEN):
        create(f"taken-{number}", config)
        told = describe(ConfigResource.Type.TOPIC, f"taken-{number}")
        assert {name: told[name].value for name in config} == config, (config, told)
        assert not any(told[name].is_default for name in config), told
    for config, reason in REFUSED:
        try:
            create("refused", config)
        except KafkaException as error:
            refused = error.args[0]
            assert refused.code() == KafkaError.INVALID_CONFIG and reason in refused.str(), refused
        else:
            raise AssertionError(f"{config} was taken")
    told = describe(ConfigResource.Type.BROKER, "1")
    assert {name: told[name].value for name in OF_THE_BROKER} == OF_THE_BROKER, told
    assert "log.dirs" in told
    print("all good")


main()
