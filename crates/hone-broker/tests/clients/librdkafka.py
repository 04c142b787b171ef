"""Default producer, consumer group and admin client of librdkafka (confluent_kafka) against a broker.

usage: librdkafka.py ADDRESS:PORT; ends with `all good` when every record came back and every answer was as wanted.
"""

import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, libversion
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

RECORDS = 100_000
ADDRESS = sys.argv[1]


def produce(topic, **settings):
    """Writes RECORDS records and waits until each is acknowledged."""
    failed = []
    producer = Producer({"bootstrap.servers": ADDRESS, **settings})
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(
                    topic, f"value {number}", str(number), on_delivery=lambda error, _: error and failed.append(error)
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0, "records were left behind"
    assert not failed, failed[0]


def consume(topic, group, members=1):
    """Reads RECORDS records as a group; returns their values."""
    settings = {"bootstrap.servers": ADDRESS, "group.id": group, "auto.offset.reset": "earliest"}
    consumers = [Consumer(settings) for _ in range(members)]
    for consumer in consumers:
        consumer.subscribe([topic])
    values, seen, deadline = [], set(), time.time() + 60
    while len(seen) < RECORDS and time.time() < deadline:
        for consumer in consumers:
            for message in consumer.consume(5000, 0.2):
                if message.error():
                    raise KafkaException(message.error())
                values.append(message.value())
                seen.add(message.value())
    for consumer in consumers:
        commit(consumer)
        consumer.close()
    return values


def commit(consumer):
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        # A member that came when the others had read everything has nothing to commit.
        if error.args[0].code() != KafkaError._NO_OFFSET:
            raise


def check_records(topic, group, members=1):
    wanted = {f"value {number}".encode() for number in range(RECORDS)}
    values = consume(topic, group, members)
    # A rebalance may hand records out a second time; none may be missing.
    assert len(values) >= RECORDS, f"{len(values)} of {RECORDS} records"
    assert members > 1 or len(values) == RECORDS, f"{len(values)} records, {RECORDS} were written"
    assert set(values) == wanted, "other values than were written"


def check_admin():
    admin = AdminClient({"bootstrap.servers": ADDRESS})
    topics = [NewTopic("made", num_partitions=3, config={"compression.type": "zstd"})]
    admin.create_topics(topics)["made"].result(10)
    assert len(admin.list_topics("made", timeout=10).topics["made"].partitions) == 3
    resource = ConfigResource(ConfigResource.Type.TOPIC, "made")
    configs = admin.describe_configs([resource])[resource].result(10)
    assert configs["compression.type"].value == "zstd", configs
    admin.delete_topics(["made"])["made"].result(10)
    assert "made" not in admin.list_topics(timeout=10).topics


def main():
    print("librdkafka", libversion()[0])
    check_admin()
    produce("by-default")
    check_records("by-default", "group-1")
    admin = AdminClient({"bootstrap.servers": ADDRESS})
    admin.create_topics([NewTopic("wide", num_partitions=6)])["wide"].result(10)
    produce("wide", **{"enable.idempotence": True, "compression.type": "lz4"})
    check_records("wide", "group-2", members=3)
    print("all good")


main()
