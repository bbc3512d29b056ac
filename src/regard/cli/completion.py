"""`regard completion SHELL`: a script that completes verbs, their flags, and files.

What it is: three short templates, filled from the table of verbs and from each verb's `Arguments`.
What is unusual: the script is static; pressing Tab never starts Python.
What it does not know: which values a flag takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Print the completion script of a shell, to be put where it says in its first line."""

    shell: Annotated[Positional[Literal["bash", "zsh", "fish"]], arg(metavar="SHELL")]
    """bash, zsh or fish."""


def run(args: Arguments) -> None:
    """Print the script."""
    from regard.cli.main import VERBS

    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]
    print(script(dict(VERBS), {verb: _flags(verb) for verb in VERBS}))


def _flags(verb: str) -> list[str]:
    from regard.cli.main import module_of
    from regard.cli.parsing import arguments

    named = arguments(module_of(verb).Arguments)
    return [argument.flag for argument in named if argument.flag] + ["--help"]


def _bash(verbs: dict[str, str], flags: dict[str, list[str]]) -> str:
    cases = "\n".join(f'    {verb}) flags="{" ".join(flags[verb])}" ;;' for verb in verbs)
    return f"""# in ~/.bashrc: source <(regard completion bash)
_regard() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flags=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(verbs)} --help --version" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) COMPREPLY=() ;;
  esac
}}
complete -o default -F _regard regard"""


def _zsh(verbs: dict[str, str], flags: dict[str, list[str]]) -> str:
    named = "\n".join(f'    "{verb}:{summary}"' for verb, summary in verbs.items())
    cases = "\n".join(f"    {verb}) flags=({' '.join(flags[verb])}) ;;" for verb in verbs)
    return f"""# in ~/.zshrc, after compinit: source <(regard completion zsh)
_regard() {{
  local -a verbs flags
  verbs=(
{named}
  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  case $words[2] in
{cases}
  esac
  if [[ $words[CURRENT] == -* ]]; then compadd -- $flags; else _files; fi
}}
compdef _regard regard"""


def _fish(verbs: dict[str, str], flags: dict[str, list[str]]) -> str:
    lines = ["# in ~/.config/fish/config.fish: regard completion fish | source"]
    for verb, summary in verbs.items():
        lines.append(f"complete -c regard -n __fish_use_subcommand -f -a {verb} -d '{summary}'")
        for flag in flags[verb]:
            lines.append(f"complete -c regard -n '__fish_seen_subcommand_from {verb}' -l {flag.removeprefix('--')}")
    return "\n".join(lines)
