"""aiokafka. See cells.py for how it is spoken to. One event loop in a thread of its own serves every client object."""

import asyncio
import sys
import threading

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

import cells

BOOTSTRAP = sys.argv[1]
TIMEOUT_S = 40

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def run(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(TIMEOUT_S)


async def made(kind, *arguments, **settings):
    """Clients want to be made inside of the loop that runs them."""
    client = kind(*arguments, bootstrap_servers=BOOTSTRAP, **settings)
    await client.start()
    return client


class Producer:
    def __init__(self, codec="none", acks="all", idempotent=False, transactional_id=None):
        settings = {"compression_type": None if codec == "none" else codec, "linger_ms": 50}
        if transactional_id:
            settings["transactional_id"] = transactional_id
        else:
            settings.update({"acks": acks if acks == "all" else int(acks), "enable_idempotence": idempotent})
        self.producer, self.sent = run(made(AIOKafkaProducer, **settings)), []

    def send(self, topic, value, key=None, partition=None, headers=None, timestamp=None):
        self.sent.append(run(self.producer.send(topic, value, key, partition, timestamp, headers)))

    def flush(self):
        async def all_sent(futures):
            await self.producer.flush()
            await asyncio.gather(*futures)

        sent, self.sent = self.sent, []
        run(all_sent(sent))

    def close(self):
        run(self.producer.stop())

    def abandon(self):
        # It may not want to stop with a transaction that it can not end any more; the process ends anyway.
        try:
            self.close()
        except Exception:
            pass

    def begin(self):
        run(self.producer.begin_transaction())

    def finish(self, how):
        run(self.producer.commit_transaction() if how == "commit" else self.producer.abort_transaction())

    def send_offsets(self, consumer, topic, group, offsets):
        positions = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        run(self.producer.send_offsets_to_transaction(positions, group))


class Consumer(ConsumerRebalanceListener):
    def __init__(self, topic, group=None, partitions=None, isolation="read_uncommitted", protocol="classic",
                 instance=None, auto_commit=True):
        assert protocol == "classic", "aiokafka knows the classic protocol only"
        self.topic, self.revocations = topic, 0
        self.consumer = run(made(
            AIOKafkaConsumer, group_id=group, auto_offset_reset="earliest", isolation_level=isolation,
            enable_auto_commit=auto_commit and group is not None, group_instance_id=instance, fetch_max_wait_ms=100,
            heartbeat_interval_ms=200, session_timeout_ms=10000,
        ))
        run(self.start(partitions))

    async def start(self, partitions):
        if partitions is None:
            self.consumer.subscribe([self.topic], listener=self)
        else:
            self.consumer.assign([TopicPartition(self.topic, partition) for partition in range(partitions)])

    async def on_partitions_revoked(self, revoked):
        # It is called before the first assignment, too.
        self.revocations += len(revoked) > 0

    async def on_partitions_assigned(self, assigned):
        pass

    def poll(self, seconds):
        polled = run(self.consumer.getmany(timeout_ms=int(seconds * 1000), max_records=500))
        return [
            cells.Record(one.partition, one.offset, one.key, one.value, list(one.headers), one.timestamp)
            for records in polled.values()
            for one in records
        ]

    def owned(self):
        return sorted(position.partition for position in self.consumer.assignment())

    def commit(self, offsets):
        run(self.consumer.commit({TopicPartition(self.topic, partition): at for partition, at in offsets.items()}))

    def close(self):
        run(self.consumer.stop())


def check(*results):
    """aiokafka's admin client hands out the answers as they came; their errors are not raised."""
    for error in results:
        if error:
            raise RuntimeError(f"error code {error}")


def partition_count(admin, topic):
    [found] = run(admin.describe_topics([topic]))
    return 0 if found["error_code"] else len(found["partitions"])


def retention(admin, topic):
    [answer] = run(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
    [(error, _, _, _, entries)] = answer.resources
    check(error)
    [found] = [entry[1] for entry in entries if entry[0] == "retention.ms"]
    return found


def admin_topic(topic, retention_ms, altered_ms, partitions, more):
    admin = run(made(AIOKafkaAdminClient))

    def create():
        new = NewTopic(topic, int(partitions), 1, topic_configs={"retention.ms": retention_ms})
        check(*[result[1] for result in run(admin.create_topics([new])).topic_errors])
        return {}

    def alter():
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": altered_ms})
        for answer in run(admin.alter_configs([resource])):
            check(*[result[0] for result in answer.resources])
        return {"altered": cells.wait_for(lambda: retention(admin, topic) == altered_ms and altered_ms, "the value")}

    def grow():
        answer = run(admin.create_partitions({topic: NewPartitions(int(more))}))
        check(*[result[1] for result in answer.topic_errors])
        wanted = int(more)
        return {"partitions": cells.wait_for(lambda: partition_count(admin, topic) == wanted and wanted, "partitions")}

    cells.attempt("create-topic", create)
    cells.attempt("describe-topic", lambda: {
        "partitions": cells.wait_for(lambda: partition_count(admin, topic), "the new topic")})
    cells.attempt("describe-configs", lambda: {"retention_ms": retention(admin, topic)})
    cells.attempt("alter-configs", alter)
    cells.attempt("create-partitions", grow)
    run(admin.close())


def admin_log(topic, at, before):
    admin, consumer, partition = run(made(AIOKafkaAdminClient)), run(made(AIOKafkaConsumer)), TopicPartition(topic, 0)

    def offsets():
        return {
            "earliest": run(consumer.beginning_offsets([partition]))[partition],
            "latest": run(consumer.end_offsets([partition]))[partition],
            "at": run(consumer.offsets_for_times({partition: int(at)}))[partition].offset,
        }

    def delete():
        low = run(admin.delete_records({partition: RecordsToDelete(int(before))}))[partition]
        return {"low_watermark": low, "earliest": offsets()["earliest"]}

    cells.attempt("list-offsets", offsets)
    cells.attempt("delete-records", delete)
    run(consumer.stop())
    run(admin.close())


def admin_groups(group, topic):
    admin = run(made(AIOKafkaAdminClient))

    def describe():
        [answer] = run(admin.describe_consumer_groups([group]))
        [(error, _, state, *_)] = answer.groups
        check(error)
        return {"state": state}

    def offsets():
        return {"committed": run(admin.list_consumer_group_offsets(group))[TopicPartition(topic, 0)].offset}

    cells.attempt("list-groups", lambda: {"listed": group in [found[0] for found in run(admin.list_consumer_groups())]})
    cells.attempt("describe-groups", describe)
    cells.attempt("group-offsets", offsets)
    run(admin.close())


def admin_delete(topic):
    admin = run(made(AIOKafkaAdminClient))

    def delete():
        check(*[result[1] for result in run(admin.delete_topics([topic])).topic_error_codes])
        return {"listed": not cells.wait_for(lambda: topic not in run(admin.list_topics()), "the topic's end")}

    cells.attempt("describe-cluster", lambda: {"brokers": len(run(admin.describe_cluster())["brokers"])})
    cells.attempt("delete-topic", delete)
    run(admin.close())


cells.serve(sys.modules[__name__], {
    "admin-topic": admin_topic, "admin-log": admin_log, "admin-groups": admin_groups, "admin-delete": admin_delete,
})
