"""librdkafka (confluent_kafka) inside TLS with a client certificate and a login; makes, lists and removes a user.

usage: librdkafka_login.py ADDRESS:PORT CA CERTIFICATE KEY PASSWORD; ends with `all good` when every answer was as wanted.
"""

import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

ADDRESS, CA, CERTIFICATE, KEY, PASSWORD = sys.argv[1:]


def settings(user, password, mechanism, **more):
    return {
        "bootstrap.servers": ADDRESS,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": CA,
        "ssl.certificate.location": CERTIFICATE,
        "ssl.key.location": KEY,
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        **more,
    }


def round_trip(topic, *login):
    """Writes a record and reads it back as a group."""
    failed = []
    producer = Producer(settings(*login))
    producer.produce(topic, "value", on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(30) == 0 and not failed, failed
    consumer = Consumer(settings(*login, **{"group.id": topic, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    deadline, message = time.time() + 30, None
    while message is None and time.time() < deadline:
        message = consumer.poll(1)
    consumer.close()
    assert message is not None and message.error() is None and message.value() == b"value", message


def is_refused(*login):
    errors = []
    admin = AdminClient(settings(*login, error_cb=errors.append))
    try:
        admin.list_topics(timeout=3)
    except KafkaException:
        admin.poll(1)
        return any("the login failed" in error.str() for error in errors)
    return False


def main():
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]:
        round_trip(f"by-{mechanism}", "alice", PASSWORD, mechanism)
        assert is_refused("alice", "wrong", mechanism), mechanism
        assert is_refused("nobody", PASSWORD, mechanism), mechanism
    admin = AdminClient(settings("alice", PASSWORD, "SCRAM-SHA-256"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    made = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", info, b"new password")])
    made["bob"].result(30)
    found = admin.describe_user_scram_credentials(["bob"])["bob"].result(30).scram_credential_infos
    assert [(row.mechanism, row.iterations) for row in found] == [(ScramMechanism.SCRAM_SHA_512, 8192)], found
    round_trip("of-bob", "bob", "new password", "SCRAM-SHA-512")
    assert is_refused("bob", "new password", "SCRAM-SHA-256")
    gone = admin.alter_user_scram_credentials([UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512)])
    gone["bob"].result(30)
    assert is_refused("bob", "new password", "SCRAM-SHA-512")
    print("all good")


main()
