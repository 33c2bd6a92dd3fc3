/** A Redis or Valkey server of its own for a test, without files that outlive it. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
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
  const [free = 0] = port === undefined ? await freePorts(1) : [port]
  const folder = await mkdtemp(join(tmpdir(), 'headgate-redis-'))
  const args = ['--port', `${free}`, '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no']
  return startServer(free, [...args, ...options], folder)
}

/** `folder`: deleted when the server has ended. */
const startServer = async (free: number, args: readonly string[], folder: string): Promise<TestRedis> => {
  if (program === undefined) throw new Error('neither valkey-server nor redis-server is installed')
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
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
  for (
    const end = performance.now() + 120_000;
    !/ready to accept connections|Sentinel ID is/i.test(output);
    await sleep(20)
  ) {
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

export type TestRedisCluster = {
  readonly nodes: readonly TestRedis[]
  /** `redis+cluster://127.0.0.1:…,127.0.0.1:…` */
  readonly url: string
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** Slots of a cluster (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). */
const SLOTS = 16_384

/** A cluster of three masters without replicas. Resolves when each of them serves its slots and knows the others. */
export const startRedisCluster = async (): Promise<TestRedisCluster> => {
  const ports = await freePorts(6)
  const nodes: TestRedis[] = []
  const stop = async () => void (await Promise.all(nodes.map((node) => node.stop())))
  try {
    for (const at of [0, 1, 2]) {
      // The port of the bus is not 10,000 above the other, which may be no port.
      const bus = ['--cluster-port', `${ports[3 + at]}`]
      nodes.push(await startRedis(ports[at], ['--cluster-enabled', 'yes', '--cluster-node-timeout', '5000', ...bus]))
    }
    const [first] = nodes
    for (const [at, node] of nodes.entries()) {
      const [from, to] = [at, at + 1].map((part) => Math.floor((part * SLOTS) / nodes.length))
      await node.command(`CLUSTER ADDSLOTSRANGE ${from} ${Number(to) - 1}`)
      await first?.command(`CLUSTER MEET 127.0.0.1 ${node.port} ${ports[3 + at]}`)
    }
    const isWhole = async () => {
      const answers = await Promise.all(nodes.map((node) => node.command('CLUSTER INFO')))
      return answers.every((text) => /cluster_state:ok/.test(text) && /cluster_size:3/.test(text))
    }
    for (const end = performance.now() + 120_000; !(await isWhole()); await sleep(50))
      if (performance.now() > end) throw new Error('the nodes of the Redis cluster do not find each other')
  } catch (error) {
    await stop()
    throw error
  }
  return {
    nodes,
    url: `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join()}`,
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

export type TestSentinel = {
  readonly primary: TestRedis
  readonly replica: TestRedis
  /** `redis+sentinel://127.0.0.1:…/headgate` */
  readonly url: string
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** A primary with one replica, and a Sentinel that promotes the replica a second after the primary has gone. */
export const startSentinel = async (): Promise<TestSentinel> => {
  const [port = 0] = await freePorts(1)
  const servers: TestRedis[] = []
  const folder = await mkdtemp(join(tmpdir(), 'headgate-sentinel-'))
  const stop = async () => {
    await Promise.all(servers.map((one) => one.stop()))
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const primary = await startRedis()
    servers.push(primary)
    const replica = await startRedis(undefined, ['--replicaof', '127.0.0.1', `${primary.port}`])
    servers.push(replica)
    // It writes into its file what it learns.
    const file = join(folder, 'sentinel.conf')
    const settings = ['down-after-milliseconds headgate 1000', 'failover-timeout headgate 5000']
    const lines = [`monitor headgate 127.0.0.1 ${primary.port} 1`, ...settings].map((line) => `sentinel ${line}\n`)
    await writeFile(file, lines.join(''))
    servers.push(await startServer(port, [file, '--sentinel', '--port', `${port}`, '--bind', '127.0.0.1'], folder))
    const isComplete = async () => /slaves=1/.test(await send(port, 'INFO sentinel'))
    const isCopied = async () => /master_link_status:up/.test(await replica.command('INFO replication'))
    for (const end = performance.now() + 120_000; !((await isComplete()) && (await isCopied())); await sleep(50))
      if (performance.now() > end) throw new Error('Sentinel does not find the replica')
    return { primary, replica, url: `redis+sentinel://127.0.0.1:${port}/headgate`, stop, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    throw error
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
