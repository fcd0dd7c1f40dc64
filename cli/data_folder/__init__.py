"""Commands that read the files of a data folder, of a broker that need not run: `audit` and `dump`.

What an audit finds is in `pipeline/audit`.
"""
