/** The journal's files: `<start>.<pid>-<worker>-<number>.jsonl`, where `start` is the time of the process's start. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isAlive } from '../../storage/files/process-alive.ts'

/** A process that writes a journal. */
export type JournalProcess = {
  /** ms since 1970. */
  readonly start: number
  readonly pid: number
  /** Number of the worker; 0 without `WORKERS`. */
  readonly worker: number
}

export type JournalSegment = {
  readonly file: string
  /** `<start>.<pid>-<worker>` */
  readonly process: string
  readonly number: number
}

const NAME = /^([0-9a-z]{1,11}\.\d{1,10}-\d{1,5})-(\d{1,9})\.jsonl$/

/** The current process. */
export const thisProcess = (worker = 0): JournalProcess => ({
  start: Math.round(performance.timeOrigin),
  pid: process.pid,
  worker,
})

export const processName = ({ start, pid, worker }: JournalProcess): string => `${start.toString(36)}.${pid}-${worker}`

const parseProcess = (name: string): JournalProcess => {
  const [start = '', pid = '', worker = ''] = name.split(/[.-]/)
  return { start: Number.parseInt(start, 36), pid: Number(pid), worker: Number(worker) }
}

/** Whether a process is this one, or one of its workers. */
export const isOfRun = (name: string, own: JournalProcess): boolean => {
  const { start, worker } = parseProcess(name)
  return worker === 0 ? name === processName(own) : start >= own.start
}

export const segmentFile = (process: string, number: number): string => `${process}-${number}.jsonl`

/** Undefined: not a segment. */
export const parseSegment = (file: string): JournalSegment | undefined => {
  const [, process, number] = NAME.exec(file) ?? []
  return process === undefined ? undefined : { file, process, number: Number(number) }
}

/** The segments in a folder, those of one process in order. Empty if there is no folder. */
export const listSegments = (folder: string): readonly JournalSegment[] => {
  const segments = filesIn(folder).flatMap((file) => parseSegment(file) ?? [])
  return segments.sort((a, b) => (a.process === b.process ? a.number - b.number : a.process < b.process ? -1 : 1))
}

/** Size of all segments in bytes. */
export const journalSize = (folder: string): number =>
  listSegments(folder).reduce(
    (sum, { file }) => sum + (statSync(join(folder, file), { throwIfNoEntry: false })?.size ?? 0),
    0,
  )

const filesIn = (folder: string): readonly string[] => {
  try {
    return readdirSync(folder)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
    throw error
  }
}

/**
 * The processes of these that have ended. PIDs repeat, such as 1 in each container: of two processes with one PID the
 * earlier has ended. `isRunning` is replaced in tests.
 */
export const endedProcesses = (
  names: ReadonlySet<string>,
  own: JournalProcess,
  isRunning: (pid: number) => boolean = isAlive,
): ReadonlySet<string> => {
  const newest = new Map([[own.pid, own.start]])
  const processes = [...names].map((name) => ({ name, ...parseProcess(name) }))
  for (const { pid, start } of processes) newest.set(pid, Math.max(start, newest.get(pid) ?? 0))
  const ended = processes.filter(({ pid, start }) => start !== newest.get(pid) || !isRunning(pid))
  return new Set(ended.map(({ name }) => name))
}
