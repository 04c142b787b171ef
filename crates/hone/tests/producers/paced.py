"""Writes a topic at random moments with a producer of a known client.

    python paced.py CLIENT BROKER TOPIC SECONDS RATE LINGER_MS KEYS

CLIENT is confluent (librdkafka) or kafka-python; KEYS is how many different keys there are, 0 for none. Values have 100 to 300 bytes.
"""

import random
import sys
import time

client, broker, topic, seconds, rate, linger_ms, keys = sys.argv[1:]
dice = random.Random(topic)

if client == "confluent":
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker, "linger.ms": float(linger_ms)})

    def send(key, value):
        producer.produce(topic, value, key)
        producer.poll(0)
else:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker, linger_ms=int(linger_ms))

    def send(key, value):
        producer.send(topic, value, key)


due = time.monotonic() + 0.5
end = due + float(seconds)
while due < end:
    wait = due - time.monotonic()
    if wait > 0:
        time.sleep(wait)
    key = b"key-%d" % dice.randrange(int(keys)) if int(keys) else None
    send(key, dice.randbytes(dice.randint(100, 300)))
    due += dice.expovariate(float(rate))
producer.flush()
