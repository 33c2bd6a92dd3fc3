/** Settings of one target of a route, with the rows of the members that they come from. */
import { isEffort } from '../../src/core/chat.ts'
import type { RowCollector } from './imported.ts'
import type { SourceMembers, SourcePath } from './source.ts'

/** A member that becomes a setting, if its target is part of a route. `why`: the difference; null: none. */
type SettingNote = { readonly path: SourcePath; readonly to: string; readonly why: string | null }

/** Members of a target beside its provider, model and weight, as `headgate.yaml` has them. */
export type TargetSettings = { readonly members: SourceMembers; readonly notes: readonly SettingNote[] }

/** Adds the rows. `problem`: why its target has no settings; null: it has. */
export const noteSettings = ({ notes }: TargetSettings, problem: string | null, rows: RowCollector): void => {
  for (const { path, to, why } of notes) {
    if (problem !== null) rows.leaveOut(path, problem)
    else if (why === null) rows.taken(path, to)
    else rows.changed(path, to, why)
  }
}

const LONGEST = 86_400_000
const MOST_RETRIES = 5

const within = (value: unknown, least: number, most: number): value is number =>
  typeof value === 'number' && value >= least && value <= most

const whole = (value: unknown, least: number, most: number): value is number =>
  Number.isInteger(value) && within(value, least, most)

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '' && value.length <= 400

/** Parameters of a request by their name in OpenAI's format: the name here, and a value that is accepted; undefined: none is. */
const PARAMETERS: Readonly<Record<string, readonly [string, (value: unknown) => unknown]>> = {
  temperature: ['temperature', (value) => (within(value, 0, 2) ? value : undefined)],
  top_p: ['topP', (value) => (within(value, 0, 1) ? value : undefined)],
  top_k: ['topK', (value) => (whole(value, 1, Number.MAX_SAFE_INTEGER) ? value : undefined)],
  max_completion_tokens: ['maxOutputTokens', (value) => (whole(value, 1, 10_000_000) ? value : undefined)],
  max_tokens: ['maxOutputTokens', (value) => (whole(value, 1, 10_000_000) ? value : undefined)],
  seed: ['seed', (value) => (Number.isSafeInteger(value) ? value : undefined)],
  reasoning_effort: ['effort', (value) => (isEffort(value) ? value : undefined)],
  stop: [
    'stop',
    (value) => {
      const texts = Array.isArray(value) ? value : [value]
      return texts.length > 0 && texts.length <= 16 && texts.every(isText) ? texts : undefined
    },
  ],
}
export const PARAMETER_NAMES = Object.keys(PARAMETERS)

/** Collects the settings of one target. A value that cannot be used is left out at once. */
export class SettingCollector implements TargetSettings {
  readonly members: {
    timeout?: Readonly<Record<string, number>>
    retries?: number
    set?: SourceMembers
    default?: SourceMembers
    cacheBreakpoints?: 'auto'
  } = {}
  readonly notes: SettingNote[] = []
  readonly #rows: RowCollector

  constructor(rows: RowCollector) {
    this.#rows = rows
  }

  breakpoints(path: SourcePath, why: string): void {
    this.members.cacheBreakpoints = 'auto'
    this.notes.push({ path, to: 'cacheBreakpoints: auto of the target', why })
  }

  /** `value`: a time in units of `unitMs`. */
  time(path: SourcePath, value: unknown, { name, unitMs, why }: { name: string; unitMs: number; why: string | null }) {
    const ms = typeof value === 'number' ? Math.round(value * unitMs) : Number.NaN
    if (!(ms > 0 && ms <= LONGEST)) return this.#rows.leaveOut(path, 'not a time above 0, up to a day')
    this.members.timeout = { ...this.members.timeout, [name]: ms }
    this.notes.push({ path, to: `timeout.${name}: ${ms} of the target`, why })
  }

  retries(path: SourcePath, value: unknown): void {
    if (!whole(value, 0, Number.MAX_SAFE_INTEGER)) return this.#rows.leaveOut(path, 'not a whole number')
    if ('retries' in this.members) return this.#rows.leaveOut(path, 'another member has it already')
    const count = Math.min(value, MOST_RETRIES)
    this.members.retries = count
    const why = 'after a short rate limit, 500 or 502; other failures go to the next target'
    this.notes.push({ path, to: `retries: ${count} of the target`, why: count < value ? `at most 5, ${why}` : why })
  }

  /** The parameter `name` of OpenAI's format in `set` or `default`. */
  parameter(path: SourcePath, section: 'set' | 'default', [name, value]: readonly [string, unknown]): void {
    const [to, accepted] = (Object.hasOwn(PARAMETERS, name) && PARAMETERS[name]) || []
    const usable = accepted?.(value)
    const before = this.members[section]
    if (to === undefined) this.#rows.leaveOut(path, 'not a setting of a target; clients set it')
    else if (usable === undefined) this.#rows.leaveOut(path, 'a value that cannot be used')
    else if (before && to in before) this.#rows.leaveOut(path, 'another member has it already')
    else {
      this.members[section] = { ...before, [to]: usable }
      this.notes.push({ path, to: `${section}.${to} of the target`, why: null })
    }
  }
}
