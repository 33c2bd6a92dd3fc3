/** What every verb receives: the environment of the command, its output, and its exit codes. */
import type { Command } from 'commander'
import type { Env } from '../config/env.ts'
import type { Paint } from '../observe/colour.ts'

/** Exit codes of all verbs. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  invalidConfig: 3,
  unreachable: 4,
  notPermitted: 5,
  /** Not found, or in conflict with the present state. */
  conflict: 6,
  /** A claim does not hold, or a route would lose requests. */
  broken: 7,
  /** A command that has passed asked for answers that are on no tape. */
  missed: 8,
  /** A result is worse than the one that was expected. */
  worse: 9,
} as const
type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** Ends a verb with a message on stderr and an exit code. */
export class CliError extends Error {
  readonly code: ExitCode
  constructor(code: ExitCode, message: string) {
    super(message)
    this.name = 'CliError'
    this.code = code
  }
}

/** Options that every verb has. */
export type GlobalOptions = {
  readonly json: boolean
  readonly color: boolean
  readonly quiet: boolean
  readonly url: string | undefined
  readonly token: string | undefined
}

/** The process that runs the command. */
export type CliHost = {
  readonly env: Env
  /** The working folder, which contains `.env` and `headgate.yaml`. */
  readonly folder: string
  /** The folder with `data/` and `package.json`. */
  readonly home: URL
  readonly version: string
  readonly stdout: { write(text: string): unknown; readonly isTTY?: boolean; readonly columns?: number }
  readonly stderr: { write(text: string): unknown; readonly isTTY?: boolean }
}

/** The command as a verb uses it. */
export type Cli = {
  readonly host: CliHost
  readonly options: GlobalOptions
  readonly paint: Paint
  /** Of the terminal, in characters; null: the output is no terminal. */
  readonly width: number | null
  /** Writes a line to stdout. */
  readonly print: (line: string) => void
  /** Writes a line to stderr, unless `-q`. */
  readonly note: (line: string) => void
  /** Writes the result: with `--json` the value as one line, otherwise the lines. */
  readonly answer: (value: unknown, lines: () => readonly string[]) => void
  /** Builds the program with the options of all verbs. */
  readonly wholeProgram: () => Promise<Command>
  /** Sets the exit code of a verb that has printed its result. */
  readonly exit: (code: number) => void
}

/** Adds arguments, options and the action to the verb's command. `cli` is valid in actions only. */
export type DefineVerb = (command: Command, cli: () => Cli) => void
