/** One worker of the supervisor: its process, its timer and its last known state. */

import { type ChildProcess, fork } from 'node:child_process'
import type { Env } from '../../config/env.ts'
import type { Pulse } from './pulse.ts'
import type { FromSupervisor, FromWorker } from './worker-messages.ts'

/** How to start a worker. */
export type WorkerCommand = {
  readonly program: string
  readonly args: readonly string[]
  readonly env: Env
}

/** Receives the events of a worker's process. */
export type WorkerListener = {
  onMessage(message: FromWorker): void
  onExit(exit: WorkerExit): void
}

/** A process that has ended or could not be started. */
export type WorkerExit = {
  /** Null without an exit code. */
  readonly code: number | null
  readonly why: string
  readonly pid: number | undefined
  /** ms of the monotonic clock when it had begun to listen; null if it had not. */
  readonly since: number | null
}

/** Time limit in ms for a worker to listen; on an overloaded machine a start takes ten seconds. */
const START_TIMEOUT = 60_000

/** A worker keeps its number when its process is replaced. */
export class WorkerProcess {
  readonly number: number
  child: ChildProcess | null = null
  /** ms of the monotonic clock when it began to listen; null if it does not. */
  since: number | null = null
  /** Crashes in a row. */
  deaths = 0
  /** One pulse per heartbeat since its last message. */
  pulses: (Pulse | null)[] = []
  /** Its last metrics page. */
  page = ''
  #timer: NodeJS.Timeout | undefined

  constructor(number: number) {
    this.number = number
  }

  /** Starts the process. It is killed if it does not listen in time; its owner clears that timer. */
  start({ program, args, env }: WorkerCommand, listener: WorkerListener): void {
    const child = fork(program, args, { env, stdio: 'inherit' })
    this.child = child
    this.since = null
    this.pulses = []
    // Only this same program has the other end of the channel.
    child.on('message', (message) => listener.onMessage(message as FromWorker))
    let ended = false
    const onExit = (code: number | null, why: string) => {
      if (ended) return
      ended = true
      const { since } = this
      this.child = null
      this.since = null
      this.clearTimer()
      listener.onExit({ code, why, pid: child.pid, since })
    }
    child.once('exit', (code, signal) => {
      const end = () => onExit(code, signal ?? `exit code ${code}`)
      // Messages that it sent before are received first.
      if (child.connected) child.once('disconnect', end)
      else end()
    })
    // The process could not be started, or a message not sent. In the first case there is no exit event.
    child.on('error', (error) => {
      if (child.pid === undefined) onExit(null, error.message)
    })
    this.after(START_TIMEOUT, () => child.kill('SIGKILL'))
  }

  /** Sends a message. If the worker ends before it arrives, its exit is reported. */
  send(message: FromSupervisor): void {
    if (this.child?.connected) this.child.send(message, () => {})
  }

  kill(signal: NodeJS.Signals = 'SIGKILL'): void {
    this.child?.kill(signal)
  }

  /** Sets the worker's only timer. */
  after(ms: number, run: () => void): void {
    this.clearTimer()
    this.#timer = setTimeout(run, ms)
  }

  clearTimer(): void {
    clearTimeout(this.#timer)
  }
}
