/** Runs a verb of the command line. */
import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import packageFile from '../../../package.json' with { type: 'json' }
import { runCli } from '../../../src/cli/run.ts'
import { MAIN } from './process.ts'

const { version } = packageFile

export type VerbResult = {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
  // biome-ignore lint/suspicious/noExplicitAny: the tests read results of every shape
  readonly json: () => any
}

/** Time limit in ms; a busy machine needs ten seconds to start a process. */
const TIMEOUT = 60_000

type VerbOptions = {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** Receives what is written to stderr, while the verb runs. */
  readonly onNote?: (text: string) => unknown
}

const HOME = new URL('../../../', import.meta.url)

/**
 * Runs the verb in this process, in a folder, with only the given environment. A start of Node takes longer than most verbs,
 * so a process of its own is for tests of the process itself.
 */
export const verb = async (
  words: readonly string[],
  { cwd = tmpdir(), env = {}, onNote }: VerbOptions = {},
): Promise<VerbResult> => {
  const written = { stdout: '', stderr: '' }
  const stream = (name: keyof typeof written) => ({
    write: (text: string) => {
      written[name] += text
      if (name === 'stderr') void onNote?.(text)
    },
  })
  const given = { PATH: process.env.PATH ?? '', ...env }
  const host = { env: given, folder: cwd, home: HOME, version, stdout: stream('stdout'), stderr: stream('stderr') }
  const code = await runCli(words, host)
  return { code, ...written, json: () => JSON.parse(written.stdout) }
}

/** Runs the verb as a process, in a folder, with only the given environment. `program`: for Node; by default the sources. */
export const verbProcess = (
  words: readonly string[],
  { cwd = tmpdir(), env = {}, program = MAIN }: VerbOptions & { readonly program?: string } = {},
): Promise<VerbResult> =>
  new Promise((resolve) => {
    const options = { cwd, env: { PATH: process.env.PATH ?? '', ...env }, timeout: TIMEOUT, encoding: 'utf8' } as const
    execFile(process.execPath, [program, ...words], options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      resolve({ code, stdout, stderr, json: () => JSON.parse(stdout) })
    })
  })
