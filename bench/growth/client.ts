/** LoadResult over plain sockets, so that each request can have another model or key; and streams whose events are counted. */
import { connect, type Socket } from 'node:net'

const HEAD_END = Buffer.from('\r\n\r\n')
const LAST_CHUNK = Buffer.from('0\r\n\r\n')
const DATA = Buffer.from('data: {')
const EMPTY: Buffer = Buffer.alloc(0)

export const request = (path: string, body: string, key: string): Buffer => {
  const bytes = Buffer.from(body)
  const head = `POST ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${bytes.length}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), bytes])
}

const opened = (port: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket))
    socket.setNoDelay(true)
    socket.once('error', reject)
  })

/** Whether the response is complete. */
const isWhole = (answer: Buffer): boolean => {
  const end = answer.indexOf(HEAD_END)
  if (end === -1) return false
  const length = /\r\ncontent-length: (\d+)/i.exec(answer.toString('latin1', 0, end))?.[1]
  if (length !== undefined) return answer.length >= end + 4 + Number(length)
  return answer.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)
}

export type LoadResult = {
  /** Number of complete responses with status 200. */
  readonly answered: () => number
  /** The beginning of other responses. */
  readonly wrong: () => readonly string[]
  readonly stop: () => void
}

/** Opens this many connections; each sends the next request after its response. */
export const closedLoop = async (
  port: number,
  connections: number,
  requestAt: (at: number) => Buffer,
): Promise<LoadResult> => {
  let [sent, answered, stopped] = [0, 0, false]
  const wrong: string[] = []
  const sockets = await Promise.all(Array.from({ length: connections }, () => opened(port)))
  for (const socket of sockets) {
    let answer: Buffer = EMPTY
    socket.on('data', (bytes: Buffer) => {
      answer = answer.length === 0 ? bytes : Buffer.concat([answer, bytes])
      if (!isWhole(answer)) return
      const ok = answer.toString('latin1', 9, 12) === '200'
      if (ok) answered++
      else if (wrong.length < 3) wrong.push(answer.toString('utf8', 0, 600))
      answer = EMPTY
      if (!stopped) socket.write(requestAt(sent++))
    })
    socket.on('error', (error) => wrong.push(error.message))
    socket.write(requestAt(sent++))
  }
  return {
    answered: () => answered,
    wrong: () => wrong,
    stop() {
      stopped = true
      for (const socket of sockets) socket.destroy()
    },
  }
}

export type Streams = {
  /** Number of open streams. */
  readonly alive: () => number
  /** Number of received events. */
  readonly events: () => number
  readonly stop: () => void
}

/** Opens this many streams, `rate` per second. */
export const streams = async (port: number, count: number, rate: number, body: Buffer): Promise<Streams> => {
  let [events, alive] = [0, 0]
  const sockets: Socket[] = []
  const begin = async () => {
    const socket = await opened(port)
    sockets.push(socket)
    let hasBegun = false
    socket.on('data', (bytes: Buffer) => {
      if (!hasBegun) alive++
      hasBegun = true
      for (let at = bytes.indexOf(DATA); at !== -1; at = bytes.indexOf(DATA, at + 7)) events++
    })
    socket.on('error', () => {})
    socket.once('close', () => {
      if (hasBegun) alive--
    })
    socket.write(body)
  }
  const started = performance.now()
  for (let next = 0; next < count; ) {
    const due = Math.min(count, Math.ceil(((performance.now() - started) / 1000) * rate))
    await Promise.all(Array.from({ length: Math.max(0, due - next) }, begin))
    next = Math.max(next, due)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return {
    alive: () => alive,
    events: () => events,
    stop() {
      for (const socket of sockets) socket.destroy()
    },
  }
}
