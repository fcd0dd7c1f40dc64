"""`stuntbroker completion`: a script for a shell, which asks `stuntbroker completion candidates` at each Tab."""

from __future__ import annotations

import sys
from typing import Final

from stuntbroker.cli.arguments import (
    COMMANDS,
    SERVE_FLAGS,
    SERVE_OPTIONS,
    WAIT_FLAGS,
    WAIT_OPTIONS,
    UsageError,
)
from stuntbroker.cli.command_modules import module_of
from stuntbroker.cli.commands.verbs import COMMON_OPTIONS, Verb
from stuntbroker.client.commands.groups import STATES as GROUP_STATES
from stuntbroker.protocol.transaction_states import STATES as TRANSACTION_STATES

USAGE: Final = """\
usage: stuntbroker completion bash|zsh|fish

Prints a script with which the shell completes the commands and options of stuntbroker. For fish, save it as
~/.config/fish/completions/stuntbroker.fish.

Examples:
  stuntbroker completion bash > ~/.local/share/bash-completion/completions/stuntbroker
  stuntbroker completion zsh > "${fpath[1]}/_stuntbroker"
"""
BASH: Final = """\
_stuntbroker() {
    local IFS=$'\\n' word="${COMP_WORDS[COMP_CWORD]}"
    local candidates="$("${COMP_WORDS[0]}" completion candidates "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)"
    COMPREPLY=($(compgen -W "$candidates" -- "$word"))
}
complete -o default -F _stuntbroker stuntbroker
"""
ZSH: Final = """\
#compdef stuntbroker
_stuntbroker() {
    local -a candidates
    candidates=(${(f)"$(${(Q)words[1]} completion candidates "${(@)words[2,CURRENT-1]}" 2>/dev/null)"})
    (( $#candidates )) && compadd -a candidates || _files
}
if [[ $funcstack[1] == _stuntbroker ]]; then  # From a folder of fpath, by the first Tab.
    _stuntbroker "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _stuntbroker stuntbroker
fi
"""
FISH: Final = """\
function __stuntbroker_candidates
    set -l words (commandline -opc)
    stuntbroker completion candidates $words[2..]
end
complete -c stuntbroker -a '(__stuntbroker_candidates)'
complete -c stuntbroker -n '__stuntbroker_candidates | string match -qv -- "-*"' -f  # No files where a word is due.
"""
SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}
NOUNS: Final = ("topic", "group", "acl", "config", "txn")
VALUES: Final = {
    "--durability": ("process", "power"),
    "--recover": ("refuse", "truncate"),
    "--log-format": ("text", "json"),
    "--log-level": ("debug", "info", "warning", "error"),
    "--isolation": ("read_committed", "read_uncommitted"),
    "--compression": ("none", "gzip", "snappy", "lz4", "zstd"),
    "--from": ("earliest", "latest"),
    "--to": ("earliest", "latest"),
}
"""Option -> its possible values, for all commands."""


def completion(arguments: list[str]) -> int:
    """Print a shell's script, or the candidates for the next word; return the exit status."""
    if arguments[:1] == ["candidates"]:
        sys.stdout.write("".join(f"{word}\n" for word in candidates(arguments[1:])))
        return 0
    if len(arguments) != 1 or arguments[0] not in SCRIPTS:
        raise UsageError(f"completion: give the name of a shell: {', '.join(SCRIPTS)}")
    sys.stdout.write(SCRIPTS[arguments[0]])
    return 0


def candidates(words: list[str]) -> list[str]:
    """Return completions for the words of a command line, in the order of the help."""
    if not words:
        return list(COMMANDS)
    command, *others = words
    if others and others[-1].startswith("-"):
        values = _values(command, others)
        if values is not None:
            return values
    return _words(command, others)


def _values(command: str, others: list[str]) -> list[str] | None:
    """Return the known values of the last option; None if it is a flag, or not an option of the command."""
    option = others[-1]
    if command in ("txn", "group") and option == "--state":
        return list(TRANSACTION_STATES if command == "txn" else GROUP_STATES)
    if option in VALUES:
        return list(VALUES[option])
    takes_value = option in _words(command, others[:-1]) and option not in _flags(command, others)
    return [] if takes_value else None


def _flags(command: str, others: list[str]) -> tuple[str, ...]:
    """Return the options of a command that take no value."""
    match command:
        case "serve":
            return SERVE_FLAGS
        case "wait":
            return WAIT_FLAGS
        case "audit":
            from stuntbroker.cli.data_folder.audit import FLAGS

            return FLAGS
        case "produce" | "consume":
            flags: tuple[str, ...] = module_of(command).FLAGS
            return flags
        case "ctl":
            from stuntbroker.cli.commands.ctl import COMMANDS as CTL_COMMANDS

            return (*CTL_COMMANDS[others[0]].flags, "--json") if others[0] in CTL_COMMANDS else ()
    if command in NOUNS:
        verbs: dict[str, Verb] = module_of(command).VERBS
        return (*verbs[others[0]].flags, "--json") if others[0] in verbs else ()
    return ("--json",)


def _words(command: str, others: list[str]) -> list[str]:
    match command:
        case "help":
            return [] if others else list(COMMANDS)
        case "completion":
            return [] if others else list(SCRIPTS)
        case "serve":
            return [*SERVE_OPTIONS, *SERVE_FLAGS]
        case "wait":
            return [*WAIT_OPTIONS, *WAIT_FLAGS]
        case "dump" | "version":
            return ["--json"]
        case "audit":
            from stuntbroker.cli.data_folder.audit import FLAGS, VALUES

            return [*VALUES, *FLAGS]
        case "advertise":
            return [*COMMON_OPTIONS, "--json"]
        case "produce" | "consume":
            module = module_of(command)
            return [*module.OPTIONS, *module.FLAGS]
    if command == "ctl":
        from stuntbroker.cli.commands.ctl import COMMANDS as CTL_COMMANDS
        from stuntbroker.cli.commands.ctl import CONTROL_OPTIONS

        if not others:
            return list(CTL_COMMANDS)
        known = CTL_COMMANDS.get(others[0])
        return [] if known is None else [*known.options, *known.flags, *CONTROL_OPTIONS, "--json"]
    if command not in NOUNS:
        return []
    module = module_of(command)
    verbs: dict[str, Verb] = module.VERBS
    if not others:
        return list(verbs)
    verb = verbs.get(others[0])
    return [] if verb is None else [*verb.options, *verb.flags, *COMMON_OPTIONS, "--json"]
