#!/usr/bin/env python3
"""Sends orders, one after the other, over one connection: drive.py PORT ORDERS [SEED]"""
import http.client
import json
import random
import sys

port, orders = int(sys.argv[1]), int(sys.argv[2])
draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
for number in range(orders):
    order = {"order": number, "customer": f"c{draw.randrange(500)}", "cents": draw.randrange(1, 100_000)}
    connection.request("POST", "/orders", json.dumps(order).encode())
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200 or b'"total":' not in text:
        sys.exit(f"order {number}: status {answer.status}, {text[:80]!r}")
