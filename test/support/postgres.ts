/** A Postgres server of its own for a test: a new cluster in a temporary folder, on a free port of 127.0.0.1. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isQuick } from './lane.ts'
import { accepts, freePorts } from './ports.ts'

/** Debian installs the server's programs in a folder for each version. */
const DEBIAN = '/usr/lib/postgresql'
const folders = [
  ...(existsSync(DEBIAN) ? readdirSync(DEBIAN).map((version) => join(DEBIAN, version, 'bin')) : []),
  ...(process.env.PATH ?? '').split(':'),
]
const programs = folders.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')))

/**
 * For the `skip` of a test: false where Postgres is installed, and in CI, where a missing one must fail. The quick lane takes
 * SQLite: Postgres is three quarters of the processor time of these tests.
 */
export const skipPostgres = isQuick
  ? 'the quick lane takes SQLite; `npm run test:all` also runs Postgres'
  : process.env.HEADGATE_CI === '1' || programs !== undefined
    ? false
    : 'no Postgres here; Debian has it as the package postgresql'

export type PostgresServer = {
  /** `postgres://headgate@127.0.0.1:<port>/headgate` */
  readonly url: string
  readonly port: number
  /** Creates another database and returns its URL. */
  newDatabase(): string
  /** The database again, empty. No gateway may be connected. */
  recreate(): void
  /** The server no longer answers, until `resume`. */
  pause(): void
  resume(): void
  /** Ends the replication of a standby: from now on it accepts writes. Resolves when it does. */
  promote(): Promise<void>
  /** Ends the server; the data stays until `remove`. */
  stop(): Promise<void>
  /** Starts it again after `stop`. */
  start(): Promise<void>
  /** Ends the server and deletes its data. */
  remove(): Promise<void>
}

/** ms */
const STARTED = 30_000

/** Postgres does not run as root: root's tests run it as the user `postgres`. */
const owner = (): { readonly uid: number; readonly gid: number } | Record<string, never> => {
  if (process.getuid?.() !== 0) return {}
  const id = (option: string) => Number(spawnSync('id', [option, 'postgres'], { encoding: 'utf8' }).stdout)
  return { uid: id('-u'), gid: id('-g') }
}

/**
 * `standbyOf`: it follows this server by streaming replication, and accepts reads only until `promote`. `tls`: it takes TLS as well.
 */
export const startPostgres = async (
  standbyOf?: PostgresServer,
  tls?: { readonly cert: string; readonly key: string },
): Promise<PostgresServer> => {
  if (programs === undefined) throw new Error('Postgres is not installed')
  const [port = 0] = await freePorts(1)
  const user = owner()
  const folder = mkdtempSync(join(tmpdir(), 'headgate-postgres-'))
  const data = join(folder, 'data')
  mkdirSync(data, { mode: 0o700 })
  if (user.uid !== undefined) for (const path of [folder, data]) chownSync(path, user.uid, user.gid)
  const program = (name: string) => join(programs, name)
  const options = { ...user, cwd: folder, env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' } }
  const [creator, ...words] =
    standbyOf === undefined
      ? ['initdb', '-D', data, '-U', 'headgate', '-A', 'trust', '-E', 'UTF8', '--no-sync']
      : `pg_basebackup -D ${data} -h 127.0.0.1 -p ${standbyOf.port} -U headgate -R -X stream -c fast --no-sync`.split(
          ' ',
        )
  execFileSync(program(creator ?? ''), words, { ...options, stdio: 'ignore' })
  let child: ChildProcess | null = null
  let output = ''
  let databases = 0
  const run = (sql: string) =>
    execFileSync(program('psql'), ['-h', '127.0.0.1', '-p', String(port), '-U', 'headgate', '-c', sql, 'postgres'], {
      ...options,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
  const start = async () => {
    const settings = ['fsync=off', 'listen_addresses=127.0.0.1', `port=${port}`, ...(tls ? secured(folder) : [])]
    const started = spawn(
      program('postgres'),
      ['-D', data, '-k', folder, ...settings.flatMap((setting) => ['-c', setting])],
      { ...options, stdio: ['ignore', 'ignore', 'pipe'] },
    )
    child = started
    started.stderr.setEncoding('utf8').on('data', (text: string) => {
      output = `${output}${text}`.slice(-10_000)
    })
    for (const end = performance.now() + STARTED; !(await accepts(port)); await sleep(50))
      if (performance.now() > end || started.exitCode !== null)
        throw new Error(`Postgres does not start; its output:\n${output}`)
    // It accepts connections and refuses their calls while it recovers.
    for (const end = performance.now() + STARTED; ; await sleep(50)) {
      try {
        run('SELECT 1')
        break
      } catch (error) {
        if (performance.now() > end) throw error
      }
    }
  }
  const stop = async () => {
    const running = child
    child = null
    if (!running || running.exitCode !== null || running.signalCode !== null) return
    signalAll(running, 'SIGCONT')
    const gone = once(running, 'exit')
    // Immediate shutdown: clients lose their connection as if the machine had failed.
    running.kill('SIGQUIT')
    await gone
  }
  for (const [name, text] of Object.entries({ 'server.crt': tls?.cert ?? '', 'server.key': tls?.key ?? '' })) {
    writeFileSync(join(folder, name), text, { mode: 0o600 })
    if (user.uid !== undefined) chownSync(join(folder, name), user.uid, user.gid)
  }
  await start()
  if (standbyOf === undefined) run('CREATE DATABASE headgate')
  return {
    url: `postgres://headgate@127.0.0.1:${port}/headgate`,
    port,
    newDatabase() {
      const name = `headgate_${++databases}`
      run(`CREATE DATABASE ${name}`)
      return `postgres://headgate@127.0.0.1:${port}/${name}`
    },
    recreate() {
      run('DROP DATABASE headgate WITH (FORCE)')
      run('CREATE DATABASE headgate')
    },
    pause: () => signalAll(child, 'SIGSTOP'),
    resume: () => signalAll(child, 'SIGCONT'),
    async promote() {
      run('SELECT pg_promote(true, 60)')
    },
    stop,
    start,
    async remove() {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const secured = (folder: string): readonly string[] => [
  'ssl=on',
  `ssl_cert_file=${join(folder, 'server.crt')}`,
  `ssl_key_file=${join(folder, 'server.key')}`,
]

/** Also to the processes of the connections, each of which has a session of its own. */
const signalAll = (server: ChildProcess | null, signal: NodeJS.Signals): void => {
  if (!server?.pid) return
  const children = spawnSync('ps', ['-o', 'pid=', '--ppid', String(server.pid)], { encoding: 'utf8' }).stdout ?? ''
  for (const pid of [server.pid, ...children.split('\n').filter(Boolean).map(Number)]) {
    try {
      process.kill(pid, signal)
    } catch {
      // It has ended.
    }
  }
}
