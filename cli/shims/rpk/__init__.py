"""`rpk`, Redpanda's command, as far as an image for tests needs it: `redpanda start`, `cluster`, `topic` and `group`.

`main` finds the command, `layouts` reads what `--format` says, `printing` and `parsing` turn records into text and text into
records by it. What Redpanda has beside Kafka (its administration, schemas, Wasm) is not here.
"""
