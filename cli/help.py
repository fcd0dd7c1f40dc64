"""Output of `stuntbroker --help`, `stuntbroker COMMAND --help` and `stuntbroker help COMMAND`."""

from __future__ import annotations

from typing import Final

from stuntbroker.cli.arguments import COMMANDS, module_of, unknown_command

OVERVIEW: Final = """\
usage: stuntbroker COMMAND [options]

  serve       run the broker
  wait        exit 0 as soon as a broker answers
  topic       create, list, describe, delete and grow topics of any Kafka
  group       list, describe, reset and delete consumer groups
  produce     write records, in a transaction or without one
  consume     print records, also those of open and aborted transactions, and the markers that end them
  config      show and change the properties of topics, brokers and groups
  advertise   tell a broker in a container by which address its mapped port is reached
  ctl         time, faults and the last requests of a broker that was started with --control
  txn         show and end transactions of any Kafka: list, describe, abort, force-terminate, find-hanging
  dump        print the files of a data folder as readable lines
  audit       check the transactions in the data folder of a stopped broker
  completion  print what a shell needs to complete these commands
  version     print the version (also --version, -V)
  help        print this, or the help of a command (also --help, -h)

Kafka's own commands are here too, with Kafka's options and output: stuntbroker kafka-topics, kafka-console-producer,
kafka-console-consumer, kafka-consumer-groups, kafka-configs, kafka-transactions, kafka-broker-api-versions, kafka-cluster,
kafka-get-offsets; and rpk. In the image they have these names.

`stuntbroker help COMMAND` and `stuntbroker COMMAND --help` print the options of a command, and examples.

Examples:
  stuntbroker help serve
  stuntbroker txn --help
"""
SERVE: Final = """\
usage: stuntbroker serve [options]

Runs the broker until SIGTERM, SIGINT (Ctrl-C) or SIGHUP.

  --host H                 where to listen (default: the property listeners, or localhost; 0.0.0.0 for every IPv4 address)
  --port P                 default: the property listeners, or 9092; 0 lets the kernel choose
  --nodes N                so many brokers, which form a cluster (default 1): the ports of the others follow P
  --data-dir D             keep the data there (default: a temporary folder, removed at the end)
  --durability process     acknowledged means written: it survives kill -9 (default)
               power       acknowledged means synced to the disk: it survives a power cut
  --recover refuse         a log that was damaged refuses the start (default)
            truncate       it is cut where the damage begins, as Apache Kafka does
  --config FILE            properties from a TOML file, or from a Java file whose name ends in .properties
  --set KEY=VALUE          one property, by Kafka's name; may be repeated, wins over the file
  --topic NAME[:PARTITIONS[:KEY=VALUE...]]
                           create this topic unless it exists; may be repeated
  --exit-with-parent       stop when the process that started this one has ended, or closes standard input if that is a pipe
  --container              the defaults of a Kafka image: listen everywhere, keep the data where a volume is mounted, say that
                           it is ready in the words of other images too
  --not-found-ports P,P    also listen there and answer every HTTP request with 404, for those who wait for such a port
  --ready-file PATH        write the address there as JSON when ready; the file is removed at the start and at the end
  --metrics-port P         also answer Prometheus there, at /metrics (0 lets the kernel choose)
  --control [HOST:PORT]    let tests control time and faults and see the last requests, over HTTP (default: 127.0.0.1 and a
                           port that the kernel chooses)
  --control-token TOKEN    with --control: what they must send there; without it one is made unless only this machine can
                           connect
  --plan NAME|FILE         with --control: states, faults, stops and time from the start on, as JSON, YAML or by the name of a
                           plan that comes with the broker (stuntbroker ctl plans)
  --log-format text|json   form of the log on standard error (default text)
  --log-level debug|info|warning|error   (default info)

Variables: KAFKA_X_Y sets the property x.y, STUNTBROKER_X_Y the option --x-y or the property stuntbroker.x.y, and
STUNTBROKER_TOPICS=orders:3,payments creates topics. The command line wins over STUNTBROKER_, that over KAFKA_, and that
over --config.
Prints `ready kafka=HOST:PORT` on standard output when it accepts requests; behind it ` listener.NAME=HOST:PORT` for each
of several listeners, with --metrics-port ` metrics=HOST:PORT`, and with --control ` control=http://HOST:PORT`.
Exit status: 0 after a signal, 1 it cannot start or it failed, 2 the command line is wrong.

Examples:
  stuntbroker serve --port 0 --topic orders:3 --topic payments:1:cleanup.policy=compact
  stuntbroker serve --data-dir ./data --durability power --config server.properties
"""
WAIT: Final = """\
usage: stuntbroker wait [options]

Asks until a broker answers a Kafka request.

  --bootstrap HOST:PORT    default localhost:9092; more than one with commas
  --command-config FILE    security of the connection: properties as for Kafka's clients
  --container              the broker that runs in this container, wherever it listens: for health checks
  --timeout SECONDS        default 30

Exit status: 0 as soon as a broker answers, 1 after the time-out, 2 the command line is wrong.

Examples:
  stuntbroker wait --timeout 5
  stuntbroker wait --bootstrap broker:9092 && ./run-tests.sh
"""
DUMP: Final = """\
usage: stuntbroker dump [--json] FILE|FOLDER...

Prints the files of a data folder, ours or Apache Kafka's: logs with their batches and records, indexes, snapshots of
producers, checkpoints, and the journal of topics. Of a FOLDER, all files below it. A line that begins with ! says what is
wrong with a file; the other files are printed too. --json: an object for each line, with file, text and is_damage.
Exit status: 0 all of it could be read, 1 something is damaged or cannot be shown, 2 the command line is wrong.

Examples:
  stuntbroker dump data/orders-0/*.log
  stuntbroker dump data
"""
VERSION: Final = """\
usage: stuntbroker version [--json] | --version | -V

Prints the version of Stuntbroker, and whether its hot path was compiled.

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
    usage: str = module_of(command).USAGE
    return usage
