#!/bin/sh
# Entry point of Redpanda: `/entrypoint.sh redpanda start ...`
exec /usr/bin/rpk "$@"
