"""Commands that read the files of a data folder, without a running broker: `audit` and `dump`.

The audit itself is in `pipeline/audit`.
"""
