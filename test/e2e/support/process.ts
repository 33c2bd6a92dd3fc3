/** The real gateway as a process of its own, as a user starts it, in a folder of its own and with no environment but the given. */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const MAIN = join(import.meta.dirname, '..', '..', '..', 'src', 'main.ts')

export type Started = {
  /** `http://127.0.0.1:…` */
  readonly url: string
  /** `http://127.0.0.1:…/v1` */
  readonly base: string
  readonly folder: string
  readonly child: ChildProcess
  /** Log lines that have come so far, parsed. What was just answered may not be among them: see `told`. */
  readonly lines: () => readonly LogLine[]
  /** All log lines of what was answered until now: asks for something that does not exist, and waits until that is told too. */
  readonly told: () => Promise<readonly LogLine[]>
  /** Waits until a line satisfies, at most 30 s: a busy machine takes ten to start a process. */
  readonly line: (wanted: (line: LogLine) => boolean) => Promise<LogLine>
  /** Everything written to standard output and error. */
  readonly output: () => string
  /** SIGTERM, then waits for the exit code; kills after 15 s. */
  readonly stop: () => Promise<number | null>
  [Symbol.asyncDispose](): Promise<void>
}

export type LogLine = { readonly event: string; readonly level: string; readonly [field: string]: unknown }

export type StartOptions = {
  readonly env?: Readonly<Record<string, string>>
  /** Files of the working folder, by name. */
  readonly files?: Readonly<Record<string, string>>
  /** Limits of the process, as `ulimit` has them: `-n 60`. */
  readonly limits?: string
  /** What Node runs; the sources, if absent. */
  readonly program?: string
}

/** The whole suite can be run over undici's client and Node's server as well: `HTTP_SERVER=node node scripts/test.ts test/e2e`. */
const { HTTP_CLIENT, HTTP_SERVER } = process.env
const speakers = {
  ...(HTTP_CLIENT !== undefined && { HTTP_CLIENT }),
  ...(HTTP_SERVER !== undefined && { HTTP_SERVER }),
}

/** For what is to be seen of a usual start, whatever the suite is run over. */
export const USUAL = { HTTP_CLIENT: 'own', HTTP_SERVER: 'own' } as const

export type Run = {
  readonly child: ChildProcess
  readonly folder: string
  readonly output: () => string
  readonly exited: Promise<number | null>
}

/** Starts it and does not wait for it to listen. The caller stops it. */
export const run = async ({ env = {}, files = {}, limits, program: file = MAIN }: StartOptions = {}): Promise<Run> => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-test-'))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  const program = [process.execPath, file] as const
  const [command, ...args] = limits ? (['sh', '-c', `ulimit ${limits}; exec "$0" "$@"`, ...program] as const) : program
  const child = spawn(command, args, {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', PORT: '0', LOG_FORMAT: 'json', ...speakers, ...env },
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

/** Starts it and waits until it listens. */
export const start = async (options: StartOptions = {}): Promise<Started> => {
  const { child, folder, output, exited } = await run(options)
  const lines = (): LogLine[] =>
    output()
      .split('\n')
      .flatMap((line) => {
        try {
          return line.startsWith('{') ? [JSON.parse(line)] : []
        } catch {
          // The last line may not be complete yet.
          return []
        }
      })
  let over = false
  void exited.then(() => {
    over = true
  })
  const line = async (wanted: (line: LogLine) => boolean): Promise<LogLine> => {
    for (const end = performance.now() + 30_000; performance.now() < end; ) {
      const found = lines().find(wanted)
      if (found) return found
      if (over) break
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    throw new Error(`the gateway did not say what was expected; it said:\n${output()}`)
  }
  const told = async (url: string): Promise<readonly LogLine[]> => {
    const id = `told-${randomUUID()}`
    await (await fetch(`${url}/told`, { headers: { 'x-request-id': id } })).arrayBuffer()
    await line((each) => each.id === id)
    return lines().filter((each) => each.id !== id)
  }
  const stop = async (): Promise<number | null> => {
    if (!over) child.kill('SIGTERM')
    const killer = setTimeout(() => child.kill('SIGKILL'), 15_000)
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
      told: () => told(url),
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

/** POSTs JSON and gives back what came. */
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
    // biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape
    json: (): any => JSON.parse(text),
  }
}
