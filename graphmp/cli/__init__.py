"""The command line: one file a command; nothing below this folder prints.

A command is a module with `HELP` (one line), `EXAMPLE` (shown by --help), `add_arguments(parser)`,
`run(args) -> exit status` and, where it takes absl flags, `FLAGS` (an absl FlagValues).
"""
