/**
 * haproxy in front of several gateways, configured as the documentation recommends: readiness checks, and retries only
 * for requests that were not sent.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { accepts, freePorts } from '../../support/ports.ts'

/** Debian installs it in a folder that only root's PATH contains. */
const env = { PATH: `${process.env.PATH ?? ''}:/usr/sbin:/usr/local/sbin` }
const absent = spawnSync('haproxy', ['-v'], { env }).error
  ? 'no haproxy here; Debian has it as the package haproxy'
  : false

/** For the `skip` of a test: false where haproxy is installed, and in CI, where a missing one must fail. */
export const skipBalancer = process.env.HEADGATE_CI === '1' ? false : absent

const SHIPPED = join(import.meta.dirname, '..', '..', '..', 'deploy', 'compose', 'haproxy.cfg')

export type Balancer = {
  readonly url: string
  /** Resolves when requests can be sent to the gateway at this index; rejects after 30 s. */
  isUp(index: number): Promise<void>
  /** What haproxy has written about servers that it takes out, and why. */
  output(): string
  stop(): Promise<void>
}

/** ms between two readiness checks of a gateway. */
const CHECK_INTERVAL = 200

/** The parts of a configuration that differ with each start. */
export type BalancerParts = {
  readonly port: number
  /** The path of the socket with the statistics. */
  readonly statistics: string
  readonly gateways: readonly number[]
}

/** A configuration as the documentation recommends it. */
const recommended = ({ port, statistics, gateways }: BalancerParts): string => `global
  maxconn 4000
  stats socket ${statistics} level user
defaults
  mode http
  timeout connect 2s
  timeout client 120s
  timeout server 120s
  timeout check 5s
  option redispatch 1
  retries 3
  # A request that reached a gateway may have been answered and paid for: only what could not be sent is sent elsewhere.
  retry-on conn-failure
frontend in
  bind 127.0.0.1:${port}
  default_backend gateways
backend gateways
  balance leastconn
  option httpchk
  http-check send meth GET uri /health/ready ver HTTP/1.1 hdr Host 127.0.0.1
  http-check expect status 200
  default-server inter ${CHECK_INTERVAL}ms fall 1 rise 1
${gateways.map((gateway, at) => `  server gateway${at} 127.0.0.1:${gateway} check`).join('\n')}
`

/** What of the file of `deploy/compose` differs on this machine. Each pattern must occur in it. */
const LOCAL: readonly (readonly [shipped: RegExp, local: (parts: BalancerParts) => string])[] = [
  [/^global$/m, ({ statistics }) => `global\n  stats socket ${statistics} level user`],
  [/^resolvers docker\n(?: .*\n)+/m, () => ''],
  [/ resolvers docker init-addr \S+/, () => ''],
  [/inter 1s/, () => `inter ${CHECK_INTERVAL}ms`],
  [/^ {2}bind :8080$/m, ({ port }) => `  bind 127.0.0.1:${port}`],
  [/^ {2}balance .*\n(?: {2}hash-type .*\n)?/m, () => '  balance roundrobin\n'],
  [
    /(?:^ {2}server .*\n?)+/m,
    ({ gateways }) => gateways.map((gateway, at) => `  server gateway${at} 127.0.0.1:${gateway}\n`).join(''),
  ],
]

/** The file of `deploy/compose`, with gateways of this machine in turn, so that no client stays at one of them. */
export const shippedRoundRobin = (parts: BalancerParts): string =>
  LOCAL.reduce(
    (text, [shipped, local]) => {
      if (!shipped.test(text)) throw new Error(`${SHIPPED} no longer contains ${shipped}`)
      return text.replace(shipped, local(parts))
    },
    readFileSync(SHIPPED, 'utf8'),
  )

export const startBalancer = async (gateways: readonly number[], configuration = recommended): Promise<Balancer> => {
  const [port = 0] = await freePorts(1)
  const folder = await mkdtemp(join(tmpdir(), 'headgate-balancer-'))
  const file = join(folder, 'haproxy.cfg')
  const statistics = join(folder, 'statistics')
  await writeFile(file, configuration({ port, statistics, gateways }))
  const child = spawn('haproxy', ['-db', '-f', file], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let words = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    words += text
  })
  const gone = once(child, 'close')
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await gone
    await rm(folder, { recursive: true, force: true })
  }
  // Another program may listen at the port meanwhile: only haproxy makes the socket.
  const isListening = async () => existsSync(statistics) && (await accepts(port))
  for (const end = performance.now() + 120_000; !(await isListening()); await sleep(50)) {
    if (performance.now() < end && child.exitCode === null) continue
    await stop()
    throw new Error(`haproxy does not listen; its output:\n${words}`)
  }
  const isUp = async (index: number) => {
    for (const end = performance.now() + 120_000; !(await isChecked(statistics, `gateway${index}`)); ) {
      if (performance.now() > end) throw new Error(`haproxy does not see gateway ${index} as ready`)
      await sleep(CHECK_INTERVAL / 4)
    }
  }
  return { url: `http://127.0.0.1:${port}`, isUp, output: () => words, stop }
}

/**
 * Whether the last check of a server has passed: fields 18 and 37 of its line (https://docs.haproxy.org/2.6/management.html#9.1).
 * A server is UP also before its first check, which may find that the gateway has not read its keys yet.
 */
const isChecked = async (socketPath: string, server: string): Promise<boolean> => {
  const socket = connect(socketPath)
  socket.write('show stat\n')
  let page = ''
  for await (const piece of socket.setEncoding('utf8')) page += piece
  const line = page.split('\n').find((one) => one.startsWith(`gateways,${server},`))
  const fields = line?.split(',') ?? []
  // An asterisk: the next check is in progress.
  return fields[17] === 'UP' && /^(?:\* )?L7OK$/.test(fields[36] ?? '')
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
