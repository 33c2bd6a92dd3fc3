/** A Redis or Valkey server of its own for a test, without files that outlive it. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePorts } from './ports.ts'

const program = ['valkey-server', 'redis-server'].find((name) => !spawnSync(name, ['--version']).error)

/** For the `skip` of a test: false where a server is installed, and in CI, where a missing one must fail. */
export const skipRedis =
  program !== undefined || process.env.HEADGATE_CI === '1'
    ? false
    : 'no valkey-server or redis-server here; Debian has the package redis-server'

export type TestRedis = {
  /** `redis://127.0.0.1:…` */
  readonly url: string
  readonly port: number
  /** Sends a command as one line, and returns what the server sends next. */
  command(line: string): Promise<string>
  /** Stops the process without ending it, or lets it run again. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
  /** Ends the server. */
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** `port`: absent: a free one. */
export const startRedis = async (port?: number, options: readonly string[] = []): Promise<TestRedis> => {
  if (program === undefined) throw new Error('neither valkey-server nor redis-server is installed')
  const [free = 0] = port === undefined ? await freePorts(1) : [port]
  const folder = await mkdtemp(join(tmpdir(), 'headgate-redis-'))
  const args = ['--port', `${free}`, '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no']
  const child = spawn(program, [...args, ...options], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  const ended = once(child, 'close')
  // A test process that fails must not leave it behind.
  const kill = () => void child.kill('SIGKILL')
  process.once('exit', kill)
  const stop = async () => {
    process.off('exit', kill)
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await ended
    await rm(folder, { recursive: true, force: true })
  }
  for (const end = performance.now() + 120_000; !/ready to accept connections/i.test(output); await sleep(20)) {
    if (performance.now() < end && child.exitCode === null) continue
    await stop()
    throw new Error(`${program} does not listen; its output:\n${output}`)
  }
  return {
    url: `redis://127.0.0.1:${free}`,
    port: free,
    command: (line) => send(free, line),
    signal: (signal) => void child.kill(signal),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

const send = (port: number, line: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`${line}\r\n`))
    socket.once('error', reject)
    socket.setEncoding('utf8').once('data', (text: string) => {
      socket.destroy()
      resolve(text)
    })
  })

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
