#!/bin/bash
# Entry point of bitnami/kafka; its argument is the script that starts the broker.
exec "${@:-/opt/bitnami/scripts/kafka/run.sh}"
