/** Starts a gateway on the first core, and reads its CPU time and memory from /proc. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { threadsTimeOf } from '../proc.ts'

const FILE = 'headgate.yaml'
const main = join(process.env.HEADGATE_SOURCE ?? join(import.meta.dirname, '..', '..'), 'bin', 'headgate.mjs')

/** A command that runs on one core: 0 for the gateway, 1 for load and fake provider. */
export const onCore = (core: number, ...command: string[]): readonly [string, string[]] => [
  'taskset',
  ['-c', String(core), ...command],
]

/** Moves this process with its threads to a core. */
export const moveToCore = (core: number): void => {
  spawnSync('taskset', ['-a', '-cp', String(core), String(process.pid)])
}

export type Process = {
  readonly pid: number
  /** CPU time of all threads, user and system, in ms. */
  readonly cpu: () => number
  /** Resident memory in MB. */
  readonly memory: () => number
  readonly stop: () => Promise<void>
}

export type Gateway = Process & {
  readonly port: number
  /** CPU time from its start to its first answer, in ms. */
  readonly started: number
  /** Writes a new configuration and reloads; resolves when it is active. */
  readonly reload: (file: string) => Promise<void>
}

const observe = (child: ChildProcess): Omit<Process, 'stop'> => {
  const { pid } = child
  if (pid === undefined) throw new Error('the process did not start')
  return {
    pid,
    cpu: () => threadsTimeOf(pid),
    memory: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024,
  }
}

const stopped = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

export const startUpstream = async (command: string, port: number): Promise<Process> => {
  const child = spawn(...onCore(1, command, '--listen', `127.0.0.1:${port}`, '--spec', 'size=600'), { stdio: 'ignore' })
  await answers(child, port, '/v1/models')
  return { ...observe(child), stop: () => stopped(child) }
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
  throw new Error(`no answer on port ${port}`)
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
  let onOutput = (_: string) => {}
  child.stdout?.setEncoding('latin1').on('data', (text: string) => onOutput(text))
  const observed = observe(child)
  try {
    await answers(child, port, '/health/live')
    const started = observed.cpu()
    await settled(observed.cpu)
    return {
      ...observed,
      port,
      started,
      ...handles(child, folder, (listener) => {
        onOutput = listener
      }),
    }
  } catch (error) {
    await stopped(child)
    throw error
  }
}

/** Waits until the work after the start, such as a second read of the files, is done. */
const settled = async (cpu: () => number): Promise<void> => {
  for (let [before, tries] = [Number.NEGATIVE_INFINITY, 0]; cpu() - before > 10 && tries < 40; tries++) {
    before = cpu()
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
}

const handles = (
  child: ChildProcess,
  folder: string,
  listen: (listener: (line: string) => void) => void,
): Pick<Gateway, 'reload' | 'stop'> => {
  const place = join(folder, FILE)
  return {
    reload: (text) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error('the new configuration did not become active')), 30_000)
        listen((line) => {
          if (!/"config_(?:changed|refused)"/.test(line)) return
          clearTimeout(timer)
          listen(() => {})
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
