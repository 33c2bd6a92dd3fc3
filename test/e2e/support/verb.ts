/** Runs a verb of the command line as a process of its own. */
import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import { runCli } from '../../../src/cli/run.ts'
import { MAIN } from './process.ts'

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
  /** The program for Node; if absent, the sources. */
  readonly program?: string
}

/** Runs the verb in a folder, with only the given environment. */
export const verb = (
  words: readonly string[],
  { cwd = tmpdir(), env = {}, program = MAIN }: VerbOptions = {},
): Promise<VerbResult> =>
  new Promise((resolve) => {
    const options = { cwd, env: { PATH: process.env.PATH ?? '', ...env }, timeout: TIMEOUT, encoding: 'utf8' } as const
    execFile(process.execPath, [program, ...words], options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      resolve({ code, stdout, stderr, json: () => JSON.parse(stdout) })
    })
  })

const HOME = new URL('../../../', import.meta.url)

/** Runs the verb in this process, with only the given environment. */
export const verbHere = async (
  words: readonly string[],
  folder: string,
  env: Readonly<Record<string, string>>,
): Promise<Omit<VerbResult, 'json'>> => {
  const written = { stdout: '', stderr: '' }
  const stream = (name: keyof typeof written) => ({
    write: (text: string) => {
      written[name] += text
    },
  })
  const host = { env, folder, home: HOME, version: '0', stdout: stream('stdout'), stderr: stream('stderr') }
  return { code: await runCli(words, host), ...written }
}
