/** nginx and haproxy in front of a gateway. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePorts } from '../../support/ports.ts'

/** Debian installs them in a folder that only root's PATH contains. */
const env = { PATH: `${process.env.PATH ?? ''}:/usr/sbin:/usr/local/sbin` }

export type FrontName = 'nginx' | 'haproxy'

/** False: the program is installed. CI has both. */
export const skipFront = (name: FrontName): string | false =>
  spawnSync(name, ['-v'], { env }).error && process.env.HEADGATE_CI !== '1' ? `${name} is missing` : false

const PROGRAMS = {
  nginx: (folder: string, file: string) => ['-p', folder, '-c', file, '-e', 'stderr'],
  haproxy: (_folder: string, file: string) => ['-db', '-f', file],
} as const

const TEMPORARY = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${name};`)

/** The content of a `server` block in a whole configuration. */
export const nginxConf = (port: number, server: string): string =>
  `daemon off;\nworker_processes 1;\npid nginx.pid;\nevents {}\nhttp {\naccess_log off;\n${TEMPORARY.join('\n')}\nserver {\nlisten 127.0.0.1:${port};\n${server}\n}\n}\n`

/** A `backend` behind one `frontend`. */
export const haproxyConf = (port: number, frontend: string, backend: string): string =>
  `defaults\n  mode http\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\nfrontend front\n  bind 127.0.0.1:${port}\n  ${frontend}\n  default_backend gateway\nbackend gateway\n  ${backend}\n`

/** Starts a program with its configuration, and waits until it accepts connections. */
export const startFront = async (name: FrontName, confFor: (port: number) => string) => {
  const folder = mkdtempSync(join(tmpdir(), `headgate-${name}-`))
  const [port = 0] = await freePorts(1)
  const file = join(folder, `${name}.conf`)
  writeFileSync(file, confFor(port))
  const child: ChildProcess = spawn(name, PROGRAMS[name](folder, file), { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr?.on('data', (piece) => (output += piece))
  const closed = once(child, 'close')
  const stop = async () => {
    child.kill('SIGTERM')
    await closed
    rmSync(folder, { recursive: true, force: true })
  }
  for (const end = performance.now() + 30_000; !(await accepts(port)); await sleep(50))
    if (child.exitCode !== null || performance.now() > end) {
      await stop()
      throw new Error(`${name} does not listen:\n${output}`)
    }
  return { url: `http://127.0.0.1:${port}`, port, stop }
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
