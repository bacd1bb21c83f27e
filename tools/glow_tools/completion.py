"""glow completion: what a shell proposes for `glow` and `glow-*`, from the parsers of the commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from glow_tools.command_line import OK, Parser
from glow_tools.command_table import COMMANDS, INNER, module_of
from glow_tools.common import command

EXAMPLES = """\
  eval "$(glow completion bash)"                   in ~/.bashrc
  glow completion zsh > ~/.zfunc/_glow             a folder of fpath
  glow completion fish > ~/.config/fish/completions/glow.fish
"""
SHELLS = ("bash", "zsh", "fish")


def arguments() -> Parser:
    """The command line."""
    parser = command("glow completion", "Print the completion script of a shell.", EXAMPLES)
    parser.add_argument("shell", choices=SHELLS)
    return parser


@dataclass(frozen=True)
class Option:
    """An option of a command: its names, help, whether a value follows, and the values there are, if few."""

    names: tuple[str, ...]
    told: str
    valued: bool
    choices: tuple[str, ...]


def options_of(parser: argparse.ArgumentParser) -> list[Option]:
    """The options of a parser."""
    return [
        Option(
            tuple(action.option_strings),
            (action.help or "").partition(" (default")[0].replace("%%", "%"),
            action.nargs != 0,
            tuple(map(str, action.choices or ())),
        )
        for action in parser._actions
        if action.option_strings
    ]


def every_command() -> dict[str, Parser]:
    """The commands that have a parser."""
    names = [n for n in (*COMMANDS, *INNER) if n != "help"]
    return {name: import_module(module_of(name)).arguments() for name in names}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow completion`."""
    a = arguments().parse_args(argv)
    scripts: dict[str, Callable[[dict[str, list[Option]]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
    print(scripts[a.shell]({name: options_of(parser) for name, parser in every_command().items()}))
    return OK


def bash(commands: dict[str, list[Option]]) -> str:
    """The script of bash: words of the options, their values, else files."""
    options = "\n".join(
        f'    {name}) words="{" ".join(n for o in options for n in o.names)}" ;;'
        for name, options in commands.items()
    )
    values = "\n".join(
        f'    {"|".join(f"{name}:{n}" for n in option.names)}) words="{" ".join(option.choices)}" ;;'
        for name, options in commands.items()
        for option in options
        if option.choices
    )
    return f"""\
# bash completion of glow; printed by `glow completion bash`
_glow() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" last="${{COMP_WORDS[COMP_CWORD-1]}}"
  local name="${{COMP_WORDS[0]##*/}}" words=""
  if [[ $name == glow ]]; then
    name="${{COMP_WORDS[1]}}"
    if [[ $COMP_CWORD -eq 1 || ( $name == help && $COMP_CWORD -eq 2 ) ]]; then
      COMPREPLY=($(compgen -W "{" ".join((*commands, "help"))} --help --version" -- "$word"))
      return
    fi
  else
    name="${{name#glow-}}"
  fi
  case "$name:$last" in
{values}
  esac
  if [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    return
  fi
  if [[ $word == -* ]]; then
    case "$name" in
{options}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    return
  fi
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen -f -- "$word"))
  if [[ $name == completion ]]; then COMPREPLY=($(compgen -W "{" ".join(SHELLS)}" -- "$word")); fi
}}
complete -F _glow glow {" ".join(f"glow-{name}" for name in COMMANDS)}"""


def zsh(commands: dict[str, list[Option]]) -> str:
    """The script of zsh: options with their help, values, files."""
    described = "\n".join(f"    {_single(f'{name}:{told}')}" for name, told in {**COMMANDS, **INNER}.items())
    cases = "\n".join(
        f"    {name}) _arguments -S {' '.join(_spec(o) for o in options)} "
        + (f"'1:shell:({' '.join(SHELLS)})'" if name == "completion" else "'*:file:_files'")
        + " ;;"
        for name, options in commands.items()
    )
    return f"""\
#compdef glow {" ".join(f"glow-{name}" for name in COMMANDS)}
# zsh completion of glow; printed by `glow completion zsh`
_glow() {{
  local name="${{service#glow-}}"
  local -a commands=(
{described}
  )
  if [[ $service == glow ]]; then
    if (( CURRENT == 2 )); then
      _describe command commands
      return
    fi
    name="$words[2]"
    if [[ $name == help ]]; then
      _describe command commands
      return
    fi
    shift words
    (( CURRENT-- ))
  fi
  case "$name" in
{cases}
  esac
}}
if [[ $funcstack[1] == _glow ]]; then
  _glow "$@"
else
  compdef _glow glow {" ".join(f"glow-{name}" for name in COMMANDS)}
fi"""


def fish(commands: dict[str, list[Option]]) -> str:
    """The script of fish."""
    lines = ["# fish completion of glow; printed by `glow completion fish`"]
    for name, told in {**COMMANDS, **INNER}.items():
        lines.append(f"complete -c glow -n __fish_use_subcommand -f -a {name} -d {_fish(told)}")
    for name, options in commands.items():
        starts = [f"-c glow -n '__fish_seen_subcommand_from {name}'"]
        starts += [f"-c glow-{name}"] if name in COMMANDS else []
        for start in starts:
            if name == "completion":
                lines.append(f"complete {start} -f -a '{' '.join(SHELLS)}'")
            for option in options:
                named = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
                value = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r" * option.valued
                lines.append(f"complete {start} {named}{value} -d {_fish(option.told)}")
    return "\n".join(lines)


def _single(text: str) -> str:
    """A word in single quotes, of which zsh and bash have none inside."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _spec(option: Option) -> str:
    """An option as zsh's _arguments takes it."""
    told = option.told.replace("[", "(").replace("]", ")").replace(":", ",")
    value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files" * option.valued
    return " ".join(_single(f"*{name}[{told}]{value}") for name in option.names)


if __name__ == "__main__":
    raise SystemExit(main())
