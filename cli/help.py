"""Output of `stuntbroker --help`, `stuntbroker COMMAND --help` and `stuntbroker help COMMAND`."""

from __future__ import annotations

from typing import Final

from stuntbroker.cli.arguments import COMMANDS, unknown_command
from stuntbroker.cli.command_modules import module_of

OVERVIEW: Final = """\
usage: stuntbroker COMMAND [options]

  serve       run the broker
  wait        exit 0 as soon as a broker answers
  topic       create, list, describe, delete and grow topics of any Kafka
  group       list, describe, reset and delete consumer groups
  acl         list, create and delete ACLs
  produce     write records, in a transaction or without one
  consume     print records, also those of open and aborted transactions, and the markers that end them
  config      show and change the properties of topics, brokers and groups
  advertise   set the address by which clients outside a container reach its broker
  ctl         control the clock and faults of a broker with --control, and show its last requests
  txn         list, describe and end transactions of any Kafka, and find hanging ones
  dump        print the files of a data folder as text
  audit       check the transactions in a data folder, without a broker
  completion  print a completion script for bash, zsh or fish
  version     print the version (also --version, -V)
  help        print this help, or that of a command (also --help, -h)

Kafka's own commands are available with Kafka's options and output: stuntbroker kafka-topics, kafka-console-producer,
kafka-console-consumer, kafka-consumer-groups, kafka-configs, kafka-transactions, kafka-acls, kafka-broker-api-versions,
kafka-cluster, kafka-features, kafka-get-offsets; and rpk. In the image, they are on the PATH.

`stuntbroker help COMMAND` and `stuntbroker COMMAND --help` print the options of a command, and examples.

Examples:
  stuntbroker help serve
  stuntbroker txn --help
"""
SERVE: Final = """\
usage: stuntbroker serve [options]        runs the broker until SIGTERM, SIGINT (Ctrl-C) or SIGHUP

  --host H                listen on this host, 0.0.0.0: on all (default: from the property listeners, or localhost)
  --port P                default: from the property listeners, or 9092; 0: chosen by the kernel
  --nodes N               number of brokers that form a cluster (default 1), on the ports from P on
  --data-dir D            folder for the data (default: a temporary folder, removed at the end)
  --durability process|power   what acknowledged records survive: kill -9 (default), or a power failure
  --recover refuse|truncate    a damaged log: do not start (default), or truncate it, as Apache Kafka does
  --config FILE           properties in a TOML file, or in a Java file whose name ends in .properties
  --set KEY=VALUE         one property, by Kafka's name; may be repeated; overrides the file
  --topic NAME[:PARTITIONS[:KEY=VALUE...]]   create this topic if it does not exist; may be repeated
  --exit-with-parent      stop when the parent process ends, or closes standard input if that is a pipe
  --container             listen on all addresses, store data in the volume, log the ready messages of other images
  --not-found-ports P,P   listen on these ports, too, and answer every HTTP request with 404
  --ready-file PATH       when ready, write the addresses to this file as JSON; it is removed at the start and the end
  --metrics-port P        serve metrics for Prometheus at /metrics on this port (0: chosen by the kernel)
  --control [HOST:PORT]   let tests control the clock and faults over HTTP (default: 127.0.0.1:0)
  --control-token TOKEN   token for clients of --control (default: a random one, or none on a loopback address)
  --plan NAME|FILE        with --control: apply a plan at the start, from a file or built in (stuntbroker ctl plans)
  --log-format text|json  format of the log on standard error (default text)
  --log-level debug|info|warning|error   (default info)

Variables: KAFKA_X_Y sets the property x.y, STUNTBROKER_X_Y the option --x-y or the property stuntbroker.x.y, and
STUNTBROKER_TOPICS=orders:3,payments creates topics. Later ones override: --config, KAFKA_, STUNTBROKER_, options.
When ready, it prints `ready kafka=HOST:PORT`, and then its other addresses: listener.NAME=, metrics=, control=
Exit status: 0 after a signal, 1 failure with a message, 2 invalid command line.
Examples:
  stuntbroker serve --port 0 --topic orders:3 --topic payments:1:cleanup.policy=compact
  stuntbroker serve --data-dir ./data --durability power --config server.properties
"""
WAIT: Final = """\
usage: stuntbroker wait [options]

Waits until a broker answers a Kafka request.

  --bootstrap HOST:PORT    default localhost:9092; more than one with commas
  --command-config FILE    security of the connection: properties as for Kafka's clients
  --container              wait for the broker in this container, whatever its port: for health checks
  --timeout SECONDS        default 30
  --json                   print the result as a JSON document: is_ready, reason

Exit status: 0 as soon as a broker answers, 1 after the time-out, 2 invalid command line.

Examples:
  stuntbroker wait --timeout 5
  stuntbroker wait --bootstrap broker:9092 && ./run-tests.sh
"""
DUMP: Final = """\
usage: stuntbroker dump [--json] FILE|FOLDER...

Prints files of a data folder of Stuntbroker or Apache Kafka: logs with their batches and records, indexes, producer
snapshots, checkpoints, and the journal of topics. A FOLDER means all files below it. A line that begins with ! says
what is wrong with a file; the other files are printed as well. --json prints an object for each line: file, text,
is_damage.
Exit status: 0 all files could be read, 1 a file is damaged or cannot be read, 2 invalid command line.

Examples:
  stuntbroker dump data/orders-0/*.log
  stuntbroker dump data
"""
VERSION: Final = """\
usage: stuntbroker version [--json] | --version | -V

Prints the version of Stuntbroker, and whether it is compiled.

Examples:
  stuntbroker version
  stuntbroker -V
"""
TEXTS: Final = {"": OVERVIEW, "help": OVERVIEW, "serve": SERVE, "wait": WAIT, "dump": DUMP, "version": VERSION}


def help_of(command: str) -> str:
    """Return the help of a command, or the overview for "". Raises UsageError if there is no such command."""
    if command in TEXTS:
        return TEXTS[command]
    if command not in COMMANDS:
        raise unknown_command(command, COMMANDS)
    if command == "completion":
        from stuntbroker.cli import completion

        return completion.USAGE
    usage: str = module_of(command).USAGE
    return usage
