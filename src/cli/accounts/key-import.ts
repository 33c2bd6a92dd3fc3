/** Keys of other gateways as bodies that create keys here. */
import { z } from 'zod'
import type { JsonObject } from '../../core/json.ts'
import { given, shellWord } from '../arguments.ts'

/** A key to create. `notesFor`: what is not taken, and what to do instead, for the key with this ID. */
export type KeyImport = {
  readonly name: string
  readonly body: JsonObject
  readonly isBlocked: boolean
  readonly notesFor: (id: string) => readonly string[]
}

/** An entry with the members of the admin API. `team`: of entries that name none. */
export const asWritten = (entry: JsonObject, team: string): KeyImport => ({
  name: typeof entry.name === 'string' ? entry.name : '',
  body: { team, ...entry },
  isBlocked: false,
  notesFor: () => [],
})

const text = z.string().optional().catch(undefined)
const number = z.number().optional().catch(undefined)
const members = z.record(z.string(), z.unknown()).catch({})

/** An entry of LiteLLM's list of keys (GET /key/list, LiteLLM 1.109). Members of another type are left out. */
const LITELLM_ENTRY = z.object({
  token: text,
  key_alias: text,
  key_name: text,
  expires: text,
  models: z.array(z.unknown()).catch([]),
  rpm_limit: number,
  tpm_limit: number,
  max_parallel_requests: number,
  max_budget: number,
  budget_duration: text,
  blocked: z.boolean().optional().catch(undefined),
  model_max_budget: members,
  aliases: members,
})
type LitellmEntry = z.output<typeof LITELLM_ENTRY>

/** A key of LiteLLM. Its token is the SHA-256 of the key, so clients keep their keys. */
export const fromLitellm = (written: JsonObject, team: string): KeyImport => {
  const entry = LITELLM_ENTRY.parse(written)
  const { token: digest = '', expires } = entry
  const name = entry.key_alias ?? `litellm-${digest.slice(0, 8)}`
  const end = entry.key_name?.slice(-4)
  const body = {
    team,
    name,
    digest: `s1:${digest}`,
    ...(end && { last4: end }),
    access: accessOf(entry.models.filter((model) => typeof model === 'string')),
    limits: given({
      requestsPerMinute: entry.rpm_limit,
      tokensPerMinute: entry.tpm_limit,
      concurrent: entry.max_parallel_requests,
    }),
    ...(expires && { expires_at: isoTime(expires) }),
  }
  return { name, body, isBlocked: entry.blocked === true, notesFor: (id) => notesOf(entry, name, id) }
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

const notesOf = (entry: LitellmEntry, name: string, id: string): readonly string[] => {
  const { max_budget: amount, budget_duration: duration } = entry
  const period = duration === undefined ? 'total' : PERIODS.get(duration)
  const command = `headgate budgets create ${shellWord(name)} --key ${id} --amount ${amount} --period ${period ?? 'PERIOD'}`
  const others = (['model_max_budget', 'aliases'] as const).filter((member) => Object.keys(entry[member]).length > 0)
  return [
    ...(amount === undefined
      ? []
      : [`its budget of ${amount} dollars${duration ? ` in ${duration}` : ''} is not taken; create one: ${command}`]),
    ...others.map((member) => `${member} is not taken`),
  ]
}
