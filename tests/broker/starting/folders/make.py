"""Create the data folders of this directory with the broker of any version: make.py NAME COMMAND...

COMMAND starts that broker, as `python -m stuntbroker`. NAME.tar.gz gets two folders: `clean`, of a broker that was stopped
cleanly, and `killed`, of a broker that was killed with an open transaction. test_folders_of_before.py lists their contents.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PROPERTIES = ("transaction.state.log.num.partitions=3", "offsets.topic.num.partitions=3")


def fill(bootstrap: str) -> Producer:
    """Write records and offsets; return a producer with an open transaction, two records of which are in the log."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic("orders", 2, config={"segment.bytes": "1048576"})]
    topics.append(NewTopic("state", 1, config={"cleanup.policy": "compact"}))
    for future in admin.create_topics(topics).values():
        future.result()
    plain = Producer({"bootstrap.servers": bootstrap, "compression.type": "gzip"})
    for number in range(500):
        plain.produce("orders", b"plain-%d" % number, partition=1)
    for number in range(50):
        plain.produce("state", b"value-%d" % number, b"key-%d" % (number % 5))
    plain.flush()
    for name, commit in (("pay-1", True), ("pay-2", False), ("pay-1", True)):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(3):
            producer.produce("orders", f"{name}-{commit}-{number}", partition=0)
        if commit:
            reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
            offsets = [TopicPartition("orders", 1, 100)]
            producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata())
            reader.close()
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    committer = Consumer({"bootstrap.servers": bootstrap, "group.id": "plain-group"})
    committer.commit(offsets=[TopicPartition("orders", 1, 7)], asynchronous=False)
    committer.close()
    open_one = Producer({"bootstrap.servers": bootstrap, "transactional.id": "open"})
    open_one.init_transactions()
    open_one.begin_transaction()
    for number in range(2):
        open_one.produce("orders", f"open-{number}", partition=0)
    open_one.flush()
    return open_one


def main(name: str, *command: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for kind, number in (("clean", signal.SIGTERM), ("killed", signal.SIGKILL)):
            sets = [text for each in PROPERTIES for text in ("--set", each)]
            data_dir = f"{folder}/{kind}"
            serve = [*command, "serve", "--port", "0", "--data-dir", data_dir, *sets]
            broker = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
            assert broker.stdout is not None
            producer = fill(broker.stdout.readline().split("kafka=")[1].split()[0])
            time.sleep(1)  # Wait for deferred writes, such as the end of a transaction.
            broker.send_signal(number)
            broker.wait()
            del producer
        with tarfile.open(Path(__file__).with_name(f"{name}.tar.gz"), "w:gz") as archive:
            for kind in ("clean", "killed"):
                archive.add(f"{folder}/{kind}", kind)
                shutil.rmtree(f"{folder}/{kind}")


if __name__ == "__main__":
    main(*sys.argv[1:])
