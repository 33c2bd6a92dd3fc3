/** `headgate tape`: runs a command with recorded answers, and looks after the tapes. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { freePort } from '../../runtime/free-port.ts'
import { checkTapes, lastRun, NotATape, pruneTapes, scanTapes } from '../../tape/check.ts'
import { secretsIn } from '../../tape/secrets.ts'
import { nameOf, textOfBytes } from '../../tape/tape-file.ts'
import { LAST_RUN, TapeFolder } from '../../tape/tape-folder.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { readLocal } from '../local.ts'
import { table } from '../table.ts'

type FolderOption = { readonly dir?: string }
type RunOptions = FolderOption & { readonly mode: string; readonly name?: string; readonly failures?: true }

const MODES = ['record', 'replay', 'strict']
/** ms until the gateway listens, and until it has ended. */
const WAIT = { start: 20_000, end: 10_000 }
/** ms between two looks. */
const LOOK = 50
/** The key of clients: the gateway of a run asks for none. */
const CLIENT_KEY = 'headgate-tape'

const folderOf = ({ host }: Cli, { dir }: FolderOption): string =>
  resolve(host.folder, dir || host.env.HEADGATE_TAPE_DIR?.trim() || 'tapes')

const run = async (cli: Cli, words: readonly string[], options: RunOptions): Promise<void> => {
  const { host } = cli
  if (!MODES.includes(options.mode))
    throw new CliError(EXIT.usage, `Unknown mode ${JSON.stringify(options.mode)}. The modes are ${MODES.join(', ')}.`)
  const folder = folderOf(cli, options)
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === false)
    throw new CliError(EXIT.usage, `${folder} is not a folder. State the folder of the tapes with --dir.`)
  const port = await freePort(0, '127.0.0.1')
  // Those of an earlier run must not stand for this one.
  rmSync(join(folder, LAST_RUN), { force: true })
  const data = mkdtempSync(join(tmpdir(), 'headgate-tape-'))
  const gateway = spawn(process.execPath, [fileURLToPath(new URL('bin/headgate.mjs', host.home))], {
    cwd: host.folder,
    env: {
      ...host.env,
      ...{
        HOST: '127.0.0.1',
        PORT: String(port),
        WORKERS: '1',
        DATA_DIR: data,
        LOG_FORMAT: 'json',
        LOG_LEVEL: 'error',
      },
      ...{ HEADGATE_TAPE: options.mode, HEADGATE_TAPE_DIR: folder },
      ...(options.name !== undefined && { HEADGATE_TAPE_NAME: options.name }),
      ...(options.failures && { HEADGATE_TAPE_FAILURES: 'true' }),
    },
    // The output of the command alone is the output of the run.
    stdio: ['ignore', 2, 'inherit'],
  })
  let code: number
  let ended: number
  try {
    const url = `http://127.0.0.1:${port}`
    await untilReady(gateway, url)
    code = await commandAt(cli, words, url)
  } finally {
    ended = await stop(gateway)
    rmSync(data, { recursive: true, force: true })
  }
  const figures = lastRun(folder)
  if (!figures) {
    cli.note(`tape: ${join(folder, LAST_RUN)} was not written, so it is unknown whether requests were missed.`)
    return cli.exit(code === 0 ? EXIT.failed : code)
  }
  const { misses } = figures
  cli.note(
    `tape: ${figures.replayed} answered, ${figures.recorded} recorded, ${misses} missed, ${figures.failed} not recorded`,
  )
  if (figures.last_miss) cli.note(figures.last_miss)
  const outcome = misses > 0 ? EXIT.missed : ended === 0 ? EXIT.done : EXIT.failed
  cli.exit(code === 0 ? outcome : code)
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode !== null || signalCode !== null

const untilReady = async (gateway: ChildProcess, url: string): Promise<void> => {
  for (const end = performance.now() + WAIT.start; performance.now() < end; await pause(LOOK)) {
    if (hasEnded(gateway))
      throw new CliError(EXIT.invalidConfig, 'The gateway did not start. Run headgate config check.')
    const answer = await fetch(`${url}/health/live`).catch(() => null)
    if (answer?.ok) return
  }
  throw new CliError(EXIT.failed, `The gateway did not start in ${WAIT.start / 1_000} s.`)
}

/** Runs the command. Its clients find the gateway by the variables that SDKs read. Returns its exit code. */
const commandAt = ({ host }: Cli, [program = '', ...words]: readonly string[], url: string): Promise<number> =>
  new Promise((settle, reject) => {
    const child = spawn(program, words, {
      cwd: host.folder,
      env: {
        ...host.env,
        ...{ HEADGATE_URL: url, OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_BASE: `${url}/v1`, ANTHROPIC_BASE_URL: url },
        ...{ GOOGLE_GEMINI_BASE_URL: url, OPENAI_API_KEY: CLIENT_KEY, ANTHROPIC_API_KEY: CLIENT_KEY },
        ...{ GEMINI_API_KEY: CLIENT_KEY, GOOGLE_API_KEY: CLIENT_KEY },
      },
      stdio: 'inherit',
    })
    child.once('error', () => reject(new CliError(EXIT.usage, `The command ${JSON.stringify(program)} cannot be run.`)))
    child.once('exit', (code, signal) => settle(code ?? (signal === null ? EXIT.done : EXIT.failed)))
  })

/** Ends the gateway. Returns its exit code. */
const stop = async (gateway: ChildProcess): Promise<number> => {
  gateway.kill('SIGTERM')
  for (const end = performance.now() + WAIT.end; !hasEnded(gateway) && performance.now() < end; ) await pause(LOOK)
  if (!hasEnded(gateway)) gateway.kill('SIGKILL')
  return gateway.exitCode ?? EXIT.failed
}

const check = (cli: Cli, options: FolderOption): void => {
  const reports = checkTapes(folderOf(cli, options))
  cli.answer(reports, () => [
    ...table(
      ['tape', 'exchanges', 'KB', 'oldest', 'unused'],
      reports.map(({ name, exchanges, bytes, oldest, unused }) => [
        name,
        String(exchanges),
        (bytes / 1024).toFixed(1),
        oldest?.slice(0, 10) ?? '-',
        unused === null ? 'unknown' : String(unused.length),
      ]),
      cli,
    ),
    ...reports.flatMap(({ problems }) => problems),
  ])
  if (reports.some(({ problems }) => problems.length > 0)) cli.exit(EXIT.failed)
}

const prune = (cli: Cli, options: FolderOption & { readonly unused?: true }): void => {
  const path = folderOf(cli, options)
  let pruned: ReturnType<typeof pruneTapes>
  try {
    pruned = pruneTapes(path, { unused: options.unused === true })
  } catch (error) {
    if (error instanceof NotATape) throw new CliError(EXIT.conflict, error.message)
    throw error
  }
  cli.answer(pruned, () => {
    if (pruned.length === 0) return ['There are no tapes.']
    return pruned.map(({ name, kept, before, after }) => `${name}: ${kept} exchanges, ${before} to ${after} bytes`)
  })
}

const show = (cli: Cli, key: string, options: FolderOption): void => {
  const folder = new TapeFolder(folderOf(cli, options))
  const found = folder
    .names()
    .flatMap((tape) => folder.open(tape).exchanges.map((exchange) => ({ tape, exchange })))
    .filter(({ exchange }) => exchange.key.startsWith(key.replace(/^tap_/, '')))
    .map(({ tape, exchange: { line, at, test, ask, target, answer, ...rest } }) => {
      const texts = answer.events.map(({ bytes }) => textOfBytes(bytes) ?? `(${bytes.length} bytes)`)
      const answered = { status: answer.status, headers: answer.headers, body: texts.join('') }
      return { id: nameOf(rest), tape, line, recorded: at, test, ask, sent: target, answer: answered }
    })
  if (key === '' || found.length === 0) throw new CliError(EXIT.conflict, `No tape has an exchange ${key}.`)
  cli.answer(found, () => found.map((one) => JSON.stringify(one, null, 2)))
}

const scan = async (cli: Cli, options: FolderOption): Promise<void> => {
  const { env, loaded } = await readLocal(cli.host)
  if (!loaded.ok)
    cli.note('The configuration is invalid, so secrets of its file are not searched for. Run headgate config check.')
  const found = scanTapes(folderOf(cli, options), [...secretsIn(env), ...(loaded.ok ? loaded.secrets() : [])])
  cli.answer(found, () => (found.length === 0 ? ['No secret and no personal data was found.'] : found))
  if (found.length > 0) cli.exit(EXIT.failed)
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate tape run --mode strict -- npm test')
  const verb = (name: string, about: string): Command =>
    command.command(name).description(about).option('--dir <folder>', 'the folder of the tapes; default: tapes')
  verb('run', 'run a command with a gateway that answers from tapes')
    .argument('<command...>', 'the command with its arguments, after --')
    .option('--mode <mode>', 'strict, replay or record', 'strict')
    .option('--name <tape>', 'the tape of requests that name none')
    .option('--failures', 'record answers with errors too')
    .addHelpText('after', '\nExample: headgate tape run --mode strict -- npm test')
    .action((words: readonly string[], options: RunOptions) => run(cli(), words, options))
  verb('check', 'check the files, their age and what the last run did not use')
    .addHelpText('after', '\nExample: headgate tape check')
    .action((options: FolderOption) => check(cli(), options))
  verb('prune', 'remove replaced and unusable lines')
    .option('--unused', 'also exchanges that the last run did not use')
    .addHelpText('after', '\nExample: headgate tape prune --unused')
    .action((options: FolderOption & { readonly unused?: true }) => prune(cli(), options))
  verb('show', 'show an exchange')
    .argument('<key>', 'such as tap_41aa0c9d22, as in a report')
    .addHelpText('after', '\nExample: headgate tape show tap_41aa0c9d22')
    .action((key: string, options: FolderOption) => show(cli(), key, options))
  verb('scan', 'look for secrets and personal data, as a commit hook')
    .addHelpText('after', '\nExample: headgate tape scan')
    .action((options: FolderOption) => scan(cli(), options))
}
