/** A PgBouncer of its own for a test, which hands out connections by transaction. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { accepts, freePorts } from './ports.ts'

export const skipPgBouncer =
  spawnSync('pgbouncer', ['--version']).status === 0
    ? false
    : 'no PgBouncer here; Debian has it as the package pgbouncer'

export type PgBouncer = {
  /** The URL of its database. */
  readonly url: string
  stop(): Promise<void>
}

/** In front of the server of `port`. `connections`: to the server. */
export const startPgBouncer = async (server: { readonly port: number }, connections: number): Promise<PgBouncer> => {
  const [port = 0] = await freePorts(1)
  const folder = mkdtempSync(join(tmpdir(), 'headgate-pgbouncer-'))
  const users = join(folder, 'users.txt')
  const config = join(folder, 'pgbouncer.ini')
  writeFileSync(users, '"headgate" ""\n')
  writeFileSync(
    config,
    `[databases]
* = host=127.0.0.1 port=${server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
pool_mode = transaction
default_pool_size = ${connections}
`,
  )
  for (const [path, mode] of [
    [folder, 0o755],
    [users, 0o644],
    [config, 0o644],
  ] as const)
    chmodSync(path, mode)
  const isRoot = process.getuid?.() === 0
  const child: ChildProcess = spawn('pgbouncer', ['-q', ...(isRoot ? ['-u', 'postgres'] : []), config], {
    stdio: 'ignore',
  })
  for (const end = performance.now() + 10_000; !(await accepts(port)); await sleep(20))
    if (performance.now() > end || child.exitCode !== null) throw new Error('PgBouncer does not start')
  return {
    url: `postgres://headgate@127.0.0.1:${port}/headgate`,
    async stop() {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
