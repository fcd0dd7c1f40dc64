#!/bin/sh
# Redpanda begins here: `/entrypoint.sh redpanda start ...`
exec /usr/bin/rpk "$@"
