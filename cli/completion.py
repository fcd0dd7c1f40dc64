"""`stuntbroker completion`: a script for a shell, which asks `stuntbroker completion candidates` at each Tab."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from stuntbroker.cli.arguments import COMMANDS, SERVE_FLAGS, SERVE_OPTIONS, WAIT_FLAGS, WAIT_OPTIONS, UsageError
from stuntbroker.cli.verbs import COMMON_OPTIONS, Verb

USAGE: Final = """\
usage: stuntbroker completion bash|zsh|fish

Prints a script by which the shell completes commands and options of stuntbroker.

Examples:
  stuntbroker completion bash > ~/.local/share/bash-completion/completions/stuntbroker
  stuntbroker completion fish > ~/.config/fish/completions/stuntbroker.fish
"""
BASH: Final = """\
_stuntbroker() {
    local IFS=$'\\n' word="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=($(compgen -W "$(stuntbroker completion candidates "${COMP_WORDS[@]:1:COMP_CWORD-1}")" -- "$word"))
}
complete -o default -F _stuntbroker stuntbroker
"""
ZSH: Final = """\
#compdef stuntbroker
_stuntbroker() {
    local -a candidates
    candidates=("${(@f)$(stuntbroker completion candidates "${(@)words[2,CURRENT-1]}")}")
    compadd -a candidates || _files
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _stuntbroker stuntbroker
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
NOUNS: Final = ("topic", "group", "config", "txn")
VALUES: Final = {
    "--durability": ("process", "power"),
    "--recover": ("refuse", "truncate"),
    "--log-format": ("text", "json"),
    "--log-level": ("debug", "info", "warning", "error"),
    "--isolation": ("read_committed", "read_uncommitted"),
    "--compression": ("none", "gzip", "snappy", "lz4", "zstd"),
    "--from": ("beginning", "end"),
    "--to": ("earliest", "latest"),
}
"""Options whose values are known."""


def completion(arguments: list[str]) -> int:
    """Print a shell's script, or the candidates for the word behind the given ones; return the exit status."""
    if arguments[:1] == ["candidates"]:
        sys.stdout.write("".join(f"{word}\n" for word in candidates(arguments[1:])))
        return 0
    if len(arguments) != 1 or arguments[0] not in SCRIPTS:
        raise UsageError(f"completion: which shell? There are {', '.join(SCRIPTS)}")
    sys.stdout.write(SCRIPTS[arguments[0]])
    return 0


def candidates(words: list[str]) -> list[str]:
    """What may follow these words of a command line, in the order in which the help has it."""
    if not words:
        return list(COMMANDS)
    command, *others = words
    if others and others[-1] in VALUES:
        return list(VALUES[others[-1]])
    match command:
        case "help":
            return [] if others else list(COMMANDS)
        case "completion":
            return [] if others else list(SCRIPTS)
        case "serve":
            return [*SERVE_OPTIONS, *SERVE_FLAGS]
        case "wait":
            return [*WAIT_OPTIONS, *WAIT_FLAGS]
        case "advertise":
            return [*COMMON_OPTIONS, "--json"]
        case "produce" | "consume":
            module = import_module(f"stuntbroker.cli.{command}")
            return [*module.OPTIONS, *module.FLAGS]
    if command == "ctl":
        from stuntbroker.cli.ctl import COMMANDS as CTL_COMMANDS
        from stuntbroker.cli.ctl import CONTROL_OPTIONS

        if not others:
            return list(CTL_COMMANDS)
        known = CTL_COMMANDS.get(others[0])
        return [] if known is None else [*known.options, *known.flags, *CONTROL_OPTIONS, "--json"]
    if command not in NOUNS:
        return []
    module = import_module(f"stuntbroker.cli.{command}")
    verbs: dict[str, Verb] = module.VERBS
    if not others:
        return list(verbs)
    verb = verbs.get(others[0])
    return [] if verb is None else [*verb.options, *verb.flags, *COMMON_OPTIONS, "--json"]
