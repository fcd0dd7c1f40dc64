"""`rpk`, Redpanda's command, as far as an image for tests needs it: `redpanda start`, `cluster`, `topic` and `group`.

`main` dispatches commands, `layouts` parses `--format`, `printing` formats records as text with a layout, and `parsing` reads
records from text. Features of Redpanda beyond Kafka (its administration, schemas, Wasm) are not supported.
"""
