/** Runs the real gateway as a separate process, in a folder of its own and with only the given environment. */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const MAIN = join(import.meta.dirname, '..', '..', '..', 'bin', 'headgate.mjs')

export type Started = {
  /** `http://127.0.0.1:…`, with the base path */
  readonly url: string
  /** `http://127.0.0.1:…/v1` */
  readonly base: string
  readonly folder: string
  readonly child: ChildProcess
  /** Parsed log lines so far. A line for the latest answer may still be missing. */
  readonly lines: () => readonly LogLine[]
  /** All log lines of requests answered until now. Sends a request for an unknown path and waits for its log line. */
  readonly logged: () => Promise<readonly LogLine[]>
  /** Waits at most 120 s for a matching log line; a busy machine needs thirty to start a process. */
  readonly line: (wanted: (line: LogLine) => boolean) => Promise<LogLine>
  /** Everything written to stdout and stderr. */
  readonly output: () => string
  /** Sends SIGTERM and waits for the exit code; kills after 60 s. */
  readonly stop: () => Promise<number | null>
  [Symbol.asyncDispose](): Promise<void>
}

export type LogLine = { readonly event: string; readonly level: string; readonly [field: string]: unknown }

export type StartOptions = {
  readonly env?: Readonly<Record<string, string>>
  /** Files of the working folder, by name. */
  readonly files?: Readonly<Record<string, string>>
  /** Process limits in `ulimit` syntax: `-n 60`. */
  readonly limits?: string
  /** The program for Node; if absent, the sources. */
  readonly program?: string
  /** Arguments of the program. */
  readonly args?: readonly string[]
}

/**
 * The suite also runs with undici's client and Node's server: `HTTP_SERVER=node node scripts/test.ts test/e2e`; and below a path:
 * `BASE_PATH=/gateway …`.
 */
const { HTTP_CLIENT, HTTP_SERVER, BASE_PATH } = process.env
const speakers = {
  ...(BASE_PATH !== undefined && { BASE_PATH }),
  ...(HTTP_CLIENT !== undefined && { HTTP_CLIENT }),
  ...(HTTP_SERVER !== undefined && { HTTP_SERVER }),
}

/** The base path of the suite, for tests that write targets themselves; usually empty. */
export const BELOW = BASE_PATH ?? ''

/** Environment for tests of a default start, whatever HTTP stack the suite uses. */
export const USUAL = { HTTP_CLIENT: 'own', HTTP_SERVER: 'own' } as const

export type Run = {
  readonly child: ChildProcess
  readonly folder: string
  readonly output: () => string
  readonly exited: Promise<number | null>
}

/**
 * Tests of the admin API and of budgets call models without a key, which these would require. A test of that
 * rule, or of keys that it creates, states `AUTH_REQUIRED`.
 */
const openUnlessKeyed = ({ env = {}, files = {} }: StartOptions): Readonly<Record<string, string>> => {
  const file = files['headgate.yaml'] ?? ''
  const isKeyed = env.AUTH_KEYS !== undefined || /\b(?:digest|secret|required)"?:|\bauth"?:\s*\{?\s*"?keys/.test(file)
  const isClosed = env.AUTH_ADMIN !== undefined || /\b(?:budgets|teams|admin)"?:/.test(file)
  return isClosed && !isKeyed ? { AUTH_REQUIRED: 'false' } : {}
}

/** Starts the process without waiting for it to listen. The caller stops it. */
export const run = async (options: StartOptions = {}): Promise<Run> => {
  const { env = {}, files = {}, limits, program: file = MAIN, args: words = [] } = options
  const folder = await mkdtemp(join(tmpdir(), 'headgate-test-'))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  const program = [process.execPath, file, ...words] as const
  const [command, ...args] = limits ? (['sh', '-c', `ulimit ${limits}; exec "$0" "$@"`, ...program] as const) : program
  const child = spawn(command, args, {
    cwd: folder,
    env: {
      PATH: process.env.PATH ?? '',
      PORT: '0',
      LOG_FORMAT: 'json',
      ...speakers,
      ...openUnlessKeyed(options),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const exited = new Promise<number | null>((resolve) =>
    child.on('close', (code) => rm(folder, { recursive: true, force: true }).then(() => resolve(code))),
  )
  return { child, folder, output: () => output, exited }
}

/** Starts the process and waits until it listens. */
export const start = async (options: StartOptions = {}): Promise<Started> => {
  const { child, folder, output, exited } = await run(options)
  const lines = (): LogLine[] =>
    output()
      .split('\n')
      .flatMap((line) => {
        try {
          return line.startsWith('{') ? [JSON.parse(line)] : []
        } catch {
          // The last line may be incomplete.
          return []
        }
      })
  let over = false
  void exited.then(() => {
    over = true
  })
  const line = async (wanted: (line: LogLine) => boolean): Promise<LogLine> => {
    for (const end = performance.now() + 120_000; performance.now() < end; ) {
      const found = lines().find(wanted)
      if (found) return found
      if (over) break
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    throw new Error(`no matching log line; the gateway’s output:\n${output()}`)
  }
  const logged = async (url: string): Promise<readonly LogLine[]> => {
    const id = `flush-${randomUUID()}`
    await (await fetch(`${url}/flush-log`, { headers: { 'x-request-id': id } })).arrayBuffer()
    await line((each) => each.id === id)
    return lines().filter((each) => each.id !== id)
  }
  const stop = async (): Promise<number | null> => {
    if (!over) child.kill('SIGTERM')
    const killer = setTimeout(() => child.kill('SIGKILL'), 60_000)
    const code = await exited
    clearTimeout(killer)
    return code
  }
  try {
    const ready = await line(({ event }) => event === 'ready')
    const url = String(ready.url)
    return {
      url,
      base: `${url}/v1`,
      folder,
      child,
      lines,
      logged: () => logged(url),
      line,
      output,
      stop,
      [Symbol.asyncDispose]: async () => void (await stop()),
    }
  } catch (error) {
    child.kill('SIGKILL')
    await exited
    throw error
  }
}

/** POSTs JSON and returns the response. */
export const post = async (url: string, body: unknown, headers: Readonly<Record<string, string>> = {}) => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text,
    // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
    json: (): any => JSON.parse(text),
  }
}
