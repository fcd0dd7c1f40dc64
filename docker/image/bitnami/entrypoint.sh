#!/bin/bash
# bitnami/kafka begins here, with the script that starts the broker as its argument.
exec "${@:-/opt/bitnami/scripts/kafka/run.sh}"
