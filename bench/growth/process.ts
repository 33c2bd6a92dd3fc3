/** A gateway of its own on the first core, and what the system says it used. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { threadsTimeOf } from '../proc.ts'

const FILE = 'headgate.yaml'
const main = join(process.env.HEADGATE_SOURCE ?? join(import.meta.dirname, '..', '..'), 'src', 'main.ts')

/** One core for what is measured, the other for the load and the fake provider. */
export const onCore = (core: number, ...command: string[]): readonly [string, string[]] => [
  'taskset',
  ['-c', String(core), ...command],
]

/** This process, its threads included. */
export const moveToCore = (core: number): void => {
  spawnSync('taskset', ['-a', '-cp', String(core), String(process.pid)])
}

export type Process = {
  readonly pid: number
  /** CPU time of all its threads, user and system, in ms. */
  readonly cpu: () => number
  /** Memory it has now, in MB. */
  readonly memory: () => number
  readonly stop: () => Promise<void>
}

export type Gateway = Process & {
  readonly port: number
  /** CPU time from its start to its first answer, in ms. */
  readonly started: number
  /** Writes another configuration and asks for it; resolves when it is in force. */
  readonly reload: (file: string) => Promise<void>
}

const looked = (child: ChildProcess): Omit<Process, 'stop'> => {
  const { pid } = child
  if (pid === undefined) throw new Error('it did not start')
  return {
    pid,
    cpu: () => threadsTimeOf(pid),
    memory: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024,
  }
}

const stopped = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

export const startUpstream = async (command: string, port: number): Promise<Process> => {
  const child = spawn(...onCore(1, command, '--listen', `127.0.0.1:${port}`, '--spec', 'size=600'), { stdio: 'ignore' })
  await answers(child, port, '/v1/models')
  return { ...looked(child), stop: () => stopped(child) }
}

const answers = async (child: ChildProcess, port: number, path: string): Promise<void> => {
  const until = performance.now() + 60_000
  while (performance.now() < until && child.exitCode === null) {
    try {
      const { status } = await fetch(`http://127.0.0.1:${port}${path}`)
      if (status === 200) return
    } catch {
      // Not listening yet.
    }
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  throw new Error(`nothing answered on port ${port}`)
}

export const startGateway = async (
  port: number,
  file: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Gateway> => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-growth-'))
  writeFileSync(join(folder, FILE), file, { mode: 0o600 })
  const child = spawn(...onCore(0, process.execPath, main), {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', PORT: String(port), LOG_FORMAT: 'json', LIMIT_EVENT_LOOP_DELAY: '0', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let heard = (_: string) => {}
  child.stdout?.setEncoding('latin1').on('data', (text: string) => heard(text))
  const look = looked(child)
  try {
    await answers(child, port, '/health/live')
    const started = look.cpu()
    await settled(look.cpu)
    return {
      ...look,
      port,
      started,
      ...handles(child, folder, (hear) => {
        heard = hear
      }),
    }
  } catch (error) {
    await stopped(child)
    throw error
  }
}

/** After its start it looks at its files once more: until it rests. */
const settled = async (cpu: () => number): Promise<void> => {
  for (let [before, tries] = [Number.NEGATIVE_INFINITY, 0]; cpu() - before > 10 && tries < 40; tries++) {
    before = cpu()
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
}

const handles = (
  child: ChildProcess,
  folder: string,
  hear: (heard: (line: string) => void) => void,
): Pick<Gateway, 'reload' | 'stop'> => {
  const place = join(folder, FILE)
  return {
    reload: (text) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error('the new configuration was not taken up')), 30_000)
        hear((line) => {
          if (!/"config_(?:changed|refused)"/.test(line)) return
          clearTimeout(timer)
          hear(() => {})
          if (line.includes('"config_refused"')) reject(new Error(line))
          else resolve()
        })
        writeFileSync(place, text)
        child.kill('SIGHUP')
      }),
    async stop() {
      await stopped(child)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
