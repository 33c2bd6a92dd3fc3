/** Keys of other gateways as bodies that create keys here. */
import { type JsonObject, list, number, object, text } from '../../core/json.ts'
import { given, shellWord } from '../arguments.ts'

/** A key to create. `notesFor`: what is not taken, and what to do instead, for the key with this ID. */
export type KeyImport = {
  readonly body: JsonObject
  readonly isBlocked: boolean
  readonly notesFor: (id: string) => readonly string[]
}

/** An entry with the members of the admin API. `team`: of entries that name none. */
export const asWritten = (entry: JsonObject, team: string): KeyImport => ({
  body: { team, ...entry },
  isBlocked: false,
  notesFor: () => [],
})

/** An entry of LiteLLM's list of keys. Its token is the SHA-256 of the key, so clients keep their keys. */
export const fromLitellm = (entry: JsonObject, team: string): KeyImport => {
  const digest = text(entry.token) ?? ''
  const name = text(entry.key_alias) ?? `litellm-${digest.slice(0, 8)}`
  const end = text(entry.key_name)?.slice(-4)
  const expires = text(entry.expires)
  const body = {
    team,
    name,
    digest: `s1:${digest}`,
    ...(end && { last4: end }),
    access: accessOf(list(entry.models).filter((model) => typeof model === 'string')),
    limits: given({
      requestsPerMinute: number(entry.rpm_limit),
      tokensPerMinute: number(entry.tpm_limit),
      concurrent: number(entry.max_parallel_requests),
    }),
    ...(expires && { expires_at: isoTime(expires) }),
  }
  return { body, isBlocked: entry.blocked === true, notesFor: (id) => notesOf(entry, name, id) }
}

/** A text that is no time stays, so that its error states it. */
const isoTime = (written: string): string => {
  const at = Date.parse(written)
  return Number.isNaN(at) ? written : new Date(at).toISOString()
}

/** Names of LiteLLM that stand for other models (`SpecialModelNames`, LiteLLM 1.109). */
const [ALL, NONE] = [['all-proxy-models', 'all-team-models'], 'no-default-models'] as const

const accessOf = (models: readonly string[]): JsonObject =>
  models.length === 0 || models.some((model) => ALL.some((name) => name === model))
    ? {}
    : { models: models.filter((model) => model !== NONE) }

/** Periods of budgets by `budget_duration`. Those of LiteLLM begin with the key, ours follow the calendar. */
const PERIODS: ReadonlyMap<string, string> = new Map([
  ['1h', 'hour'],
  ['60m', 'hour'],
  ['1d', 'day'],
  ['24h', 'day'],
  ['7d', 'week'],
  ['1w', 'week'],
  ['30d', 'month'],
  ['31d', 'month'],
  ['1mo', 'month'],
])

const notesOf = (entry: JsonObject, name: string, id: string): readonly string[] => {
  const amount = number(entry.max_budget)
  const duration = text(entry.budget_duration)
  const period = duration === undefined ? 'total' : PERIODS.get(duration)
  const command = `headgate budgets create ${shellWord(name)} --key ${id} --amount ${amount} --period ${period ?? 'PERIOD'}`
  const others = ['model_max_budget', 'aliases'].filter((member) => Object.keys(object(entry[member]) ?? {}).length > 0)
  return [
    ...(amount === undefined
      ? []
      : [`its budget of ${amount} dollars${duration ? ` in ${duration}` : ''} is not taken; create one: ${command}`]),
    ...others.map((member) => `${member} is not taken`),
  ]
}
