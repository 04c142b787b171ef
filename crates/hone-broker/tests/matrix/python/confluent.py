"""librdkafka through confluent-kafka. See cells.py for how it is spoken to."""

import sys

from confluent_kafka import (
    Consumer as RdConsumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, Producer as RdProducer,
    TopicCollection, TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec,
)

import cells

BOOTSTRAP = sys.argv[1]
TIMEOUT_S = 30


class Producer:
    def __init__(self, codec="none", acks="all", idempotent=False, transactional_id=None):
        settings = {"bootstrap.servers": BOOTSTRAP, "compression.type": codec, "linger.ms": 50}
        if transactional_id:
            settings.update({"transactional.id": transactional_id, "transaction.timeout.ms": 30000})
        else:
            settings.update({"enable.idempotence": idempotent, "acks": acks})
        self.producer, self.errors = RdProducer(settings), []
        if transactional_id:
            self.producer.init_transactions(TIMEOUT_S)

    def send(self, topic, value, key=None, partition=-1, headers=None, timestamp=0):
        self.producer.produce(
            topic, value, key, partition, headers=headers, timestamp=timestamp,
            on_delivery=lambda error, _: error and self.errors.append(error),
        )

    def flush(self):
        left = self.producer.flush(TIMEOUT_S)
        if self.errors:
            raise KafkaException(self.errors[0])
        if left:
            raise TimeoutError(f"{left} records were not acknowledged")

    def close(self):
        self.flush()

    def abandon(self):
        self.producer.purge()

    def begin(self):
        self.producer.begin_transaction()

    def finish(self, how):
        if how == "commit":
            self.producer.commit_transaction(TIMEOUT_S)
        else:
            self.producer.abort_transaction(TIMEOUT_S)

    def send_offsets(self, consumer, topic, group, offsets):
        positions = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        self.producer.send_offsets_to_transaction(positions, consumer.consumer.consumer_group_metadata(), TIMEOUT_S)


class Consumer:
    def __init__(self, topic, group=None, partitions=None, isolation="read_uncommitted", protocol="classic",
                 instance=None, auto_commit=True):
        settings = {
            "bootstrap.servers": BOOTSTRAP, "group.id": group or "none", "auto.offset.reset": "earliest",
            "isolation.level": isolation, "enable.auto.commit": auto_commit and group is not None,
            "group.protocol": protocol, "fetch.wait.max.ms": 100,
        }
        if protocol == "classic":
            settings.update({"heartbeat.interval.ms": 200, "session.timeout.ms": 10000})
        if instance:
            settings["group.instance.id"] = instance
        self.consumer, self.topic, self.revocations = RdConsumer(settings), topic, 0
        if group:
            self.consumer.subscribe([topic], on_revoke=self.on_revoke)
        else:
            self.consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def on_revoke(self, *_):
        self.revocations += 1

    def poll(self, seconds):
        found = []
        for message in self.consumer.consume(500, seconds):
            if message.error():
                raise KafkaException(message.error())
            found.append(cells.Record(
                message.partition(), message.offset(), message.key(), message.value(), message.headers() or [],
                message.timestamp()[1],
            ))
        return found

    def owned(self):
        return sorted(position.partition for position in self.consumer.assignment())

    def commit(self, offsets):
        positions = [TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()]
        self.consumer.commit(offsets=positions, asynchronous=False)

    def close(self):
        self.consumer.close()


admin = AdminClient({"bootstrap.servers": BOOTSTRAP})


def only(futures):
    [future] = futures.values()
    return future.result(TIMEOUT_S)


def partition_count(topic):
    return len(only(admin.describe_topics(TopicCollection([topic]))).partitions)


def retention(topic):
    return only(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))["retention.ms"].value


def admin_topic(topic, retention_ms, altered_ms, partitions, more):
    def create():
        only(admin.create_topics([NewTopic(topic, int(partitions), 1, config={"retention.ms": retention_ms})]))
        return {}

    def alter():
        entry = ConfigEntry("retention.ms", altered_ms, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        only(admin.incremental_alter_configs([resource]))
        return {"altered": cells.wait_for(lambda: retention(topic) == altered_ms and altered_ms, "the new value")}

    def grow():
        only(admin.create_partitions([NewPartitions(topic, int(more))]))
        return {"partitions": cells.wait_for(lambda: partition_count(topic) == int(more) and int(more), "partitions")}

    cells.attempt("create-topic", create)
    cells.attempt("describe-topic", lambda: {
        "partitions": cells.wait_for(lambda: partition_count(topic), "the new topic")})
    cells.attempt("describe-configs", lambda: {"retention_ms": retention(topic)})
    cells.attempt("alter-configs", alter)
    cells.attempt("create-partitions", grow)


def offset(topic, spec):
    return only(admin.list_offsets({TopicPartition(topic, 0): spec})).offset


def admin_log(topic, at, before):
    cells.attempt("list-offsets", lambda: {
        "earliest": offset(topic, OffsetSpec.earliest()), "latest": offset(topic, OffsetSpec.latest()),
        "at": offset(topic, OffsetSpec.for_timestamp(int(at))),
    })
    cells.attempt("delete-records", lambda: {
        "low_watermark": only(admin.delete_records([TopicPartition(topic, 0, int(before))])).low_watermark,
        "earliest": offset(topic, OffsetSpec.earliest()),
    })


def admin_groups(group, topic):
    def names():
        return [listing.group_id for listing in admin.list_consumer_groups().result(TIMEOUT_S).valid]

    def offsets():
        wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
        return {"committed": only(admin.list_consumer_group_offsets(wanted)).topic_partitions[0].offset}

    def delete():
        only(admin.delete_consumer_groups([group]))
        return {"listed": group in names()}

    cells.attempt("list-groups", lambda: {"listed": group in names()})
    cells.attempt("describe-groups", lambda: {"state": only(admin.describe_consumer_groups([group])).state.name})
    cells.attempt("group-offsets", offsets)
    cells.attempt("delete-groups", delete)


def admin_delete(topic):
    def delete():
        only(admin.delete_topics([topic]))
        return {"listed": not cells.wait_for(lambda: topic not in admin.list_topics().topics, "the topic's end")}

    cells.attempt("describe-cluster", lambda: {"brokers": len(admin.describe_cluster().result(TIMEOUT_S).nodes)})
    cells.attempt("delete-topic", delete)


cells.serve(sys.modules[__name__], {
    "admin-topic": admin_topic, "admin-log": admin_log, "admin-groups": admin_groups, "admin-delete": admin_delete,
})
