/**
 * What one request or chunk costs the main thread of a real gateway, as counts: allocated bytes, promises, timers, system
 * calls, and bytes of the journal. Client and provider are sockets of this process, which wait for each other, so each
 * request is served alone and each chunk is one read and one write. V8 only interprets: the optimising compilers remove
 * some allocations at a time that depends on the machine.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { decodeLine } from '../../src/usage/journal/journal-record.ts'
import { listSegments } from '../../src/usage/journal/segment-files.ts'
import { MAIN } from '../e2e/support/process.ts'
import { ACCOUNTS, KINDS, type Kind } from './kinds.ts'

/** Counts of the main thread since its start. `calls`: system calls that read or write; 0 where they are not counted. */
export type Counted = {
  readonly bytes: number
  readonly promises: number
  readonly timers: number
  readonly calls: number
}
/** What the counter does before it answers. */
export type Question = 'count' | 'collect' | 'count bytes' | 'count objects'
/** `turns`: of the event loop. */
export type Answer = Counted & { readonly turns: number }
/** The costs of one request or chunk. `journal`: bytes; a chunk writes none. */
export type Costs = Counted & { readonly journal?: number }

/** `idle`: turns of the event loop in a second. `costs`: by kind of request; of a stream also those of a further chunk. */
export type Measured = { readonly idle: number; readonly costs: Readonly<Record<string, Costs>> }

/** No collection and no compiler while bytes are counted. */
const FLAGS = [
  '--expose-gc',
  '--min-semi-space-size=128',
  '--max-semi-space-size=128',
  '--no-opt',
  '--no-maglev',
  '--no-lazy-feedback-allocation',
  `--import=${new URL('counter.ts', import.meta.url).href}`,
]

/** A provider that answers each path with the answer of the current request. */
class Provider {
  readonly #server: Server
  #kind: Kind | null = null
  #chunks = 0
  /** Sends the next chunk of a stream; null: none waits. */
  next: (() => void) | null = null

  constructor() {
    this.#server = createServer((socket) => {
      let received = ''
      socket.on('error', () => {})
      socket.setNoDelay(true)
      socket.on('data', (part) => {
        received += part.toString('latin1')
        if (!isWhole(received)) return
        received = ''
        this.#answer(socket)
      })
    })
  }

  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    // A server that listens on TCP has an address and a port.
    return (this.#server.address() as AddressInfo).port
  }

  close(): void {
    this.#server.close()
  }

  expect(kind: Kind, chunks: number): void {
    this.#kind = kind
    this.#chunks = chunks
  }

  #answer(socket: Socket): void {
    const { answer, chunkOf, end = [] } = this.#kind ?? {}
    if (answer !== undefined) {
      const length = Buffer.byteLength(answer)
      socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${answer}`)
      return
    }
    if (!chunkOf) throw new Error('the kind has neither an answer nor chunks')
    let at = 0
    const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
    this.next = () => {
      const text = at < this.#chunks ? chunkOf(at) : end.join('')
      const isLast = at >= this.#chunks
      socket.write(`${at === 0 ? head : ''}${framed(text)}${isLast ? '0\r\n\r\n' : ''}`)
      if (isLast) this.next = null
      at++
    }
    this.next()
  }
}

const framed = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

/** Whether the text is a complete message with a content length. */
const isWhole = (text: string): boolean => {
  const blank = text.indexOf('\r\n\r\n')
  const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? Number.POSITIVE_INFINITY)
  return blank !== -1 && text.length >= blank + 4 + length
}

/** A client with one connection and one request at a time. */
class Client {
  readonly #socket: Socket
  #received = ''
  #changed: () => void = () => {}

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true })
    this.#socket.on('data', (part) => {
      this.#received += part.toString('latin1')
      this.#changed()
    })
    this.#socket.on('close', () => this.#changed())
  }

  close(): void {
    this.#socket.destroy()
  }

  async #until(isThere: (received: string) => boolean): Promise<void> {
    while (!isThere(this.#received)) {
      if (this.#socket.closed) throw new Error(`The gateway closed the connection after: ${this.#received}`)
      await new Promise<void>((resolve) => {
        this.#changed = resolve
      })
    }
  }

  async serve(kind: Kind, chunks: number, provider: Provider): Promise<void> {
    const { path, body, key } = kind
    const credential = key === undefined ? '' : `authorization: Bearer ${key}\r\n`
    provider.expect(kind, chunks)
    this.#received = ''
    const head = `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nuser-agent: costs/1\r\n${credential}`
    this.#socket.write(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
    if (kind.answer !== undefined) await this.#until(isWhole)
    // The provider continues when the client has received the part before.
    else
      for (let at = 0; at <= chunks; at++) {
        await this.#until((text) => (at < chunks ? text.includes(`word${at} `) : text.endsWith('0\r\n\r\n')))
        if (at < chunks) provider.next?.()
      }
    if (!this.#received.startsWith('HTTP/1.1 200')) throw new Error(`The gateway answered ${this.#received}`)
  }
}

const ask = async (child: ChildProcess, what: Question): Promise<Answer> => {
  child.send(what)
  // The counter answers each message with these.
  const [answer] = (await once(child, 'message')) as [Answer]
  return answer
}

/** The fewest turns of the event loop in a second of the first seconds after the start. */
const idleTurns = async (child: ChildProcess): Promise<number> => {
  let fewest = Number.POSITIVE_INFINITY
  for (let second = 0; second < 5 && fewest > 5; second++) {
    const before = await ask(child, 'count')
    await sleep(1_000)
    fewest = Math.min(fewest, (await ask(child, 'count')).turns - before.turns)
  }
  return fewest
}

const startGateway = async (folder: string, provider: number) => {
  const keys = ['sk-0123456789abcdef']
  const at = `http://127.0.0.1:${provider}`
  // JSON is YAML.
  writeFileSync(
    join(folder, 'headgate.yaml'),
    JSON.stringify({
      ...ACCOUNTS,
      providers: {
        openai: { keys, baseUrl: `${at}/v1`, models: ['m', 'text-embedding-3-small'] },
        anthropic: { keys, baseUrl: `${at}/v1`, models: ['claude'] },
      },
    }),
  )
  const child = spawn(process.execPath, [...FLAGS, MAIN], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', PORT: '0', LOG_FORMAT: 'json' },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  let output = ''
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      output = `${output}${text}`.slice(-100_000)
      const found = /"url":"(http:[^"]+)"/.exec(output)?.[1]
      if (found !== undefined) resolve(found)
    })
    child.once('exit', (code) => reject(new Error(`The gateway exited with ${code}: ${output}`)))
  })
  return { child, port: Number(new URL(url).port) }
}

/** Requests of a kind before the first measured one, in the shorter and in the longer window, and the windows of each. */
const COUNTS = { warm: 15, few: 4, many: 16, windows: 2 }
/** Chunks of a stream, in the shorter and in the longer one. */
const CHUNKS = { few: 5, many: 105 }

const NOTHING: Counted = { bytes: 0, promises: 0, timers: 0, calls: 0 }

const least = (list: readonly Counted[], of: keyof Counted): number => Math.min(...list.map((each) => each[of]))

/** Bytes of each call in the journal, in the order of the calls. */
const journalBytes = (folder: string): ReadonlyMap<number, number> => {
  const bytes = new Map<number, number>()
  for (const { file } of listSegments(folder))
    for (const line of readFileSync(join(folder, file), 'utf8').split('\n').slice(0, -1)) {
      const record = decodeLine(line)
      if (record && 'call' in record) bytes.set(record.call, (bytes.get(record.call) ?? 0) + line.length + 1)
    }
  return bytes
}

/** Starts a gateway, serves requests of each kind and returns their costs. */
export const measureCosts = async (): Promise<Measured> => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-costs-'))
  const provider = new Provider()
  const { child, port } = await startGateway(folder, await provider.listen()).catch((error: unknown) => {
    // An open server would keep this process.
    provider.close()
    throw error
  })
  const client = new Client(port)
  const served: string[] = []
  const serve = async (name: string, kind: Kind, count: number, chunks: number): Promise<void> => {
    for (let request = 0; request < count; request++) await client.serve(kind, chunks, provider)
    served.push(...Array.from({ length: count }, () => name))
  }
  /** The least counts of several windows: what the gateway does beside requests is only ever added. */
  const windows = async (objects: boolean, run: () => Promise<void>): Promise<Counted> => {
    const found: Counted[] = []
    for (let window = 0; window < COUNTS.windows; window++) {
      await ask(child, 'collect')
      const before = await ask(child, objects ? 'count objects' : 'count bytes')
      await run()
      const after = await ask(child, 'count')
      const { bytes, promises, timers, calls } = after
      found.push({
        bytes: bytes - before.bytes,
        promises: promises - before.promises,
        timers: timers - before.timers,
        calls: calls - before.calls,
      })
    }
    const [bytes, promises] = [least(found, 'bytes'), least(found, 'promises')]
    return { bytes, promises, timers: least(found, 'timers'), calls: least(found, 'calls') }
  }
  /** The cost of one more: the difference of two windows does not contain what each window costs once. */
  const difference = async (few: () => Promise<void>, many: () => Promise<void>, more: number): Promise<Counted> => {
    const bytes = (await windows(false, many)).bytes - (await windows(false, few)).bytes
    const [most, some] = [await windows(true, many), await windows(true, few)]
    const per = (of: keyof Counted): number => Math.round((100 * (most[of] - some[of])) / more) / 100
    return { bytes: Math.round(bytes / more), promises: per('promises'), timers: per('timers'), calls: per('calls') }
  }
  try {
    const idle = await idleTurns(child)
    const costs: Record<string, Costs> = {}
    for (const [name, kind] of Object.entries(KINDS)) {
      await serve(name, kind, COUNTS.warm, CHUNKS.few)
      const requests = (count: number) => () => serve(name, kind, count, CHUNKS.few)
      costs[name] = await difference(requests(COUNTS.few), requests(COUNTS.many), COUNTS.many - COUNTS.few)
      if (!kind.chunkOf) continue
      const stream = (chunks: number) => () => serve(name, kind, 1, chunks)
      costs[`${name}, chunk`] = await difference(stream(CHUNKS.few), stream(CHUNKS.many), CHUNKS.many - CHUNKS.few)
    }
    const journal = join(folder, '.headgate', 'journal')
    let bytes = journalBytes(journal)
    // Records of ends are written later than the answer.
    for (let tries = 0; bytes.size < served.length && tries < 500; tries++) {
      await sleep(20)
      bytes = journalBytes(journal)
    }
    const calls = [...bytes].sort(([a], [b]) => a - b)
    const journaled = (name: string): Costs => {
      const own = calls.flatMap(([, size], at) => (served[at] === name ? [size] : [])).sort((a, b) => a - b)
      return { ...(costs[name] ?? NOTHING), journal: own[own.length >> 1] ?? 0 }
    }
    return {
      idle,
      costs: { ...costs, ...Object.fromEntries(Object.keys(KINDS).map((name) => [name, journaled(name)])) },
    }
  } finally {
    client.close()
    provider.close()
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
}
