"""kafka-python. See cells.py for how it is spoken to."""

import sys

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata

import cells

BOOTSTRAP = sys.argv[1]
TIMEOUT_S = 40


class Producer:
    def __init__(self, codec="none", acks="all", idempotent=False, transactional_id=None):
        settings = {
            "bootstrap_servers": BOOTSTRAP, "compression_type": None if codec == "none" else codec, "linger_ms": 50,
        }
        if transactional_id:
            settings["transactional_id"] = transactional_id
        else:
            settings.update({"acks": acks if acks == "all" else int(acks), "enable_idempotence": idempotent})
        self.producer, self.sent = KafkaProducer(**settings), []
        if transactional_id:
            self.producer.init_transactions()

    def send(self, topic, value, key=None, partition=None, headers=None, timestamp=None):
        self.sent.append(self.producer.send(topic, value, key, headers or [], partition, timestamp))

    def flush(self):
        self.producer.flush(TIMEOUT_S)
        for future in self.sent:
            future.get(TIMEOUT_S)
        self.sent = []

    def close(self):
        self.producer.close(TIMEOUT_S)

    def abandon(self):
        self.producer.close(0)

    def begin(self):
        self.producer.begin_transaction()

    def finish(self, how):
        if how == "commit":
            self.producer.commit_transaction()
        else:
            self.producer.abort_transaction()

    def send_offsets(self, consumer, topic, group, offsets):
        positions = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()
        }
        self.producer.send_offsets_to_transaction(positions, consumer.consumer.group_metadata())


class Consumer(ConsumerRebalanceListener):
    def __init__(self, topic, group=None, partitions=None, isolation="read_uncommitted", protocol="classic",
                 instance=None, auto_commit=True):
        assert protocol == "classic", "kafka-python knows the classic protocol only"
        self.topic, self.revocations = topic, 0
        self.consumer = KafkaConsumer(
            bootstrap_servers=BOOTSTRAP, group_id=group, auto_offset_reset="earliest", isolation_level=isolation,
            enable_auto_commit=auto_commit and group is not None, group_instance_id=instance, fetch_max_wait_ms=100,
            heartbeat_interval_ms=200, session_timeout_ms=10000,
        )
        if partitions is None:
            self.consumer.subscribe([topic], listener=self)
        else:
            self.consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])

    def on_partitions_revoked(self, revoked):
        self.revocations += len(revoked) > 0

    def on_partitions_assigned(self, assigned):
        pass

    def poll(self, seconds):
        polled = self.consumer.poll(timeout_ms=int(seconds * 1000))
        self.rejoin_if_forgotten()
        return [
            cells.Record(one.partition, one.offset, one.key, one.value, list(one.headers), one.timestamp)
            for records in polled.values()
            for one in records
        ]

    def rejoin_if_forgotten(self):
        """kafka-python 3.0.12 forgets a join whose last answer comes between two calls of `poll`: it neither fetches nor
        sends heartbeats from then on. Asking it to join once more brings it back."""
        coordinator = self.consumer._coordinator
        if coordinator is None:
            return
        join = coordinator._join_task
        if join is not None and join.is_done and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def owned(self):
        return sorted(position.partition for position in self.consumer.assignment())

    def commit(self, offsets):
        self.consumer.commit({
            TopicPartition(self.topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        })

    def close(self):
        self.consumer.close()


admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)


def list_transactions():
    return [
        listing.transactional_id
        for listings in admin.list_transactions(state_filters=["Ongoing"]).values()
        for listing in listings
    ]


def open_producers(topic):
    [state] = admin.describe_producers([TopicPartition(topic, 0)]).values()
    return sum(producer.current_transaction_start_offset >= 0 for producer in state.active_producers)


def partition_count(topic):
    [found] = admin.describe_topics([topic])
    return len(found["partitions"])


def retention(topic):
    answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    [configs] = [found[topic] for found in answer.values() if topic in found]
    return configs["retention.ms"]["value"]


def admin_topic(topic, retention_ms, altered_ms, partitions, more):
    def create():
        admin.create_topics({topic: {
            "num_partitions": int(partitions), "replication_factor": 1, "configs": {"retention.ms": retention_ms},
        }})
        return {}

    def alter():
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": altered_ms})])
        return {"altered": cells.wait_for(lambda: retention(topic) == altered_ms and altered_ms, "the new value")}

    def grow():
        admin.create_partitions({topic: int(more)})
        return {"partitions": cells.wait_for(lambda: partition_count(topic) == int(more) and int(more), "partitions")}

    cells.attempt("create-topic", create)
    cells.attempt("describe-topic", lambda: {
        "partitions": cells.wait_for(lambda: partition_count(topic), "the new topic")})
    cells.attempt("describe-configs", lambda: {"retention_ms": retention(topic)})
    cells.attempt("alter-configs", alter)
    cells.attempt("create-partitions", grow)


def offset(topic, timestamp):
    [found] = admin.list_partition_offsets({TopicPartition(topic, 0): timestamp}).values()
    return found.offset


def admin_log(topic, at, before):
    def delete():
        [deleted] = admin.delete_records({TopicPartition(topic, 0): int(before)}).values()
        return {"low_watermark": deleted["low_watermark"], "earliest": offset(topic, -2)}

    cells.attempt("list-offsets", lambda: {
        "earliest": offset(topic, -2), "latest": offset(topic, -1), "at": offset(topic, int(at))})
    cells.attempt("delete-records", delete)


def admin_groups(group, topic):
    def names():
        return [found["group_id"] for found in admin.list_groups()]

    def delete():
        admin.delete_groups([group])
        return {"listed": group in names()}

    cells.attempt("list-groups", lambda: {"listed": group in names()})
    cells.attempt("describe-groups", lambda: {"state": admin.describe_groups([group])[group]["group_state"]})
    cells.attempt("group-offsets", lambda: {
        "committed": admin.list_group_offsets(group)[group][TopicPartition(topic, 0)].offset})
    cells.attempt("delete-groups", delete)


def admin_delete(topic):
    def delete():
        admin.delete_topics([topic])
        return {"listed": not cells.wait_for(lambda: topic not in admin.list_topics(), "the topic's end")}

    cells.attempt("describe-cluster", lambda: {"brokers": len(admin.describe_cluster()["brokers"])})
    cells.attempt("delete-topic", delete)


cells.serve(sys.modules[__name__], {
    "admin-topic": admin_topic, "admin-log": admin_log, "admin-groups": admin_groups, "admin-delete": admin_delete,
})
