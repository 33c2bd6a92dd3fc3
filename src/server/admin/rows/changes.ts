/** What has changed: the configuration, accounts, circuits and keys of providers, and starts of processes, in one list. */
import { z } from 'zod'
import type { ReloadEntry } from '../../../config/reload-state.ts'
import { bad, good, type Outcome } from '../../../core/failure.ts'
import { isObject, type JsonObject, list, object, text } from '../../../core/json.ts'
import { endpointId, proxyId } from '../../../core/target.ts'
import type { Transition } from '../../../observe/live/transition-log.ts'
import { time } from '../../../records/entities/shown.ts'
import { CHANGES_PARAMETERS, type ChangesQuery, rangeOf } from '../../../usage/reading/parameters.ts'
import type { TimeRange } from '../../../usage/reading/queries.ts'
import { listOf } from '../../answers/fields.ts'
import { runFor } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { pageOf } from '../fields.ts'
import { askProcesses } from '../processes.ts'
import { type AdminCall, row } from '../row.ts'
import { invalid } from '../validation.ts'

const change = z
  .strictObject({
    id: z.string(),
    at: time,
    kind: z.enum(['start', 'config', 'account', 'circuit', 'credential']),
    action: z.string().describe('Such as `config.changed`, `key.create`, `circuit.open`, `credential.suspended`'),
    object: z
      .strictObject({ id: z.string(), name: z.string().nullable() })
      .nullable()
      .describe('What was changed. Of a circuit its provider, or the base URL that several providers share'),
    providers: z.array(z.string()).describe('The IDs of the providers that a change of a circuit or key affects'),
    credential: z.string().nullable().describe('The fingerprint of the key of the provider'),
    model: z.string().nullable(),
    actor: z.strictObject({ kind: z.string(), name: z.string() }).nullable(),
    details: z
      .array(z.string())
      .describe('Changed settings, or names of the changed members; of a circuit its states and the cause'),
    request: z.string().nullable().describe('The ID of the request that caused it'),
    node: z.string().nullable().describe('The process, such as `1/2`; null: all, or the only one'),
  })
  .meta({ id: 'Change' })

type Change = z.output<typeof change>

/** Entries of one source that are read: the most that a page can have, and one to know whether more are left. */
const MOST = 201

const NOTHING = {
  object: null,
  providers: [],
  credential: null,
  model: null,
  actor: null,
  details: [],
  request: null,
  node: null,
}

const iso = (at: number): string => new Date(at).toISOString()

const reloadChange = ({ at, outcome, changes, problems }: ReloadEntry): Change => ({
  ...NOTHING,
  id: `config-${at}`,
  at: iso(at),
  kind: 'config',
  action: `config.${outcome}`,
  details:
    outcome === 'refused' ? problems.map(({ where, what }) => (what ? `${where}: ${what}` : where)) : [...changes],
})

/** `sharing`: the providers with a base URL. */
const transitionChange = (
  transition: Transition,
  process: string | null,
  sharing: (baseUrl: string) => readonly string[],
): Change => {
  const { number, at, what, provider, base_url, credential, model, from, to, why, request } = transition
  const id = provider ?? base_url
  const isKey = what === 'key'
  return {
    ...NOTHING,
    id: `${isKey ? 'credential' : 'circuit'}-${at}-${process ?? ''}-${number}`,
    at: iso(at),
    kind: isKey ? 'credential' : 'circuit',
    action: `${isKey ? 'credential' : 'circuit'}.${to}`,
    object: id === null ? null : { id, name: null },
    providers: provider !== null ? [provider] : base_url !== null ? [...sharing(base_url)] : [],
    credential,
    model,
    details: [`${from} → ${to}`, ...(why === null ? [] : [why])],
    request,
    node: process,
  }
}

const WRITES = ['create', 'update', 'delete', 'revoke', 'block', 'unblock', 'rotate', 'retire', 'adjust', 'reset']
/** Writes that viewers may see. Sign-ins, admin tokens and what was read stay in the audit log. */
const SHOWN = [
  ...['team', 'key', 'budget', 'price'].flatMap((kind) => WRITES.map((write) => `${kind}.${write}`)),
  ...['credential.disabled', 'credential.release', 'circuit.open', 'circuit.release', 'circuit.close', 'circuit.probe'],
]
/** Pages of the audit log that are read, of 200 entries each. */
const MAX_PAGES = 20

/** Members that change with every write. */
const USUAL: ReadonlySet<string> = new Set(['rev', 'changed_at', 'last_used_at', 'secrets', 'last4', 'now'])

const changedMembers = (before: JsonObject, after: JsonObject): readonly string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => !USUAL.has(name) && JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  )

/** An entry of the audit log; null: viewers of these teams do not see it. */
const auditChange = (entry: JsonObject, teams: readonly string[] | null): Change | null => {
  const action = text(entry.action) ?? ''
  const [before, after] = [object(entry.before), object(entry.after)]
  const record = after ?? before ?? {}
  const id = text(entry.object) ?? ''
  const team = action.startsWith('team.') ? id : text(record.team)
  if (teams !== null && (team === undefined || !teams.includes(team))) return null
  const isDecision = /^(?:credential|circuit)\./.test(action)
  const [provider = '', credential = null] = isDecision ? id.split(' ') : []
  const actor = object(entry.actor)
  const reason = text(record.reason)
  return {
    ...NOTHING,
    id: text(entry.id) ?? '',
    at: text(entry.at) ?? '',
    kind: action.startsWith('credential.') ? 'credential' : action.startsWith('circuit.') ? 'circuit' : 'account',
    action,
    providers: isDecision ? [provider] : [],
    object: isDecision ? { id: provider, name: null } : { id, name: text(record.name) ?? null },
    credential,
    actor: actor ? { kind: text(actor.kind) ?? '', name: text(actor.name) ?? '' } : null,
    details: isDecision ? [...(reason ? [reason] : [])] : before && after ? [...changedMembers(before, after)] : [],
  }
}

/** The writes of a range, as the actor may see them. */
const writesIn = async (
  { control }: AdminDeps,
  call: AdminCall,
  { from, to }: TimeRange,
): Promise<Outcome<readonly Change[]>> => {
  const query = { from: iso(from), to: iso(to), action: SHOWN, limit: 200 }
  const found: Change[] = []
  let after: string | undefined
  for (let pages = 0; pages < MAX_PAGES && found.length < MOST; pages++) {
    const read = await runFor<JsonObject>(control, call, { do: 'audit', query: { ...query, ...(after && { after }) } })
    if (!read.ok) return read
    const page = 'body' in read.value ? read.value.body : {}
    for (const entry of list(page.data).filter(isObject)) {
      const one = auditChange(entry, call.teams)
      if (one) found.push(one)
    }
    after = text(page.next)
    if (after === undefined) break
  }
  return good(found)
}

/** Changes of circuits and keys of providers, and starts, of all processes. */
const processChanges = async (
  deps: AdminDeps,
  call: AdminCall,
  { from, to }: TimeRange,
): Promise<readonly Change[]> => {
  const { instances } = deps.gateway.config()
  const sharing = (place: string) =>
    instances.flatMap((one) => ([endpointId(one), proxyId(one)].includes(place) ? [one.id] : []))
  const { answers } = await askProcesses(deps, { do: 'changes', from, to })
  return answers.flatMap(({ name, value }) => {
    // See `answerHere`.
    const { started, pid, transitions } = value as unknown as {
      readonly started: number
      readonly pid: number
      readonly transitions: readonly Transition[]
    }
    const start: Change = {
      ...NOTHING,
      id: `start-${started}-${pid}`,
      at: iso(started),
      kind: 'start',
      action: 'gateway.start',
      details: [`version ${deps.process.version}`],
      node: name,
    }
    const inRange = started >= from && started < to ? [start] : []
    // The audit log has what operators decide, once for all processes.
    const own = transitions.filter(({ what, why }) => why !== 'operator' || !['provider', 'key'].includes(what))
    // The request may be of another team.
    const shown = call.teams === null ? own : own.map((one) => ({ ...one, request: null }))
    return [...inRange, ...shown.map((one) => transitionChange(one, name, sharing))]
  })
}

/** Newest first; the ID orders those of the same time. */
const cursorOf = ({ at, id }: Change): string => `${at} ${id}`

export const changeRows = [
  row({
    method: 'GET',
    path: '/changes',
    summary: 'List what has changed, newest first',
    about:
      'Reloads of the configuration, writes of teams, keys, budgets and prices, changes of circuits and of keys of providers with the request that caused them, and the starts of the processes. No values of records and no secrets; the audit log has those. By default of the last 24 hours. Reloads are those of this process, circuits and starts those of all processes and gateways, since each has started. Viewers of some teams see the writes of these teams, no reloads, and no IDs of requests.',
    role: 'viewer',
    scope: 'any',
    query: CHANGES_PARAMETERS,
    answer: z.strictObject({ ...listOf(change).shape, from: time, to: time }).meta({ id: 'ChangesPage' }),
    example: {
      query: { limit: '20' },
      answer: {
        object: 'list',
        data: [
          {
            ...NOTHING,
            id: 'circuit-1795428000000--4',
            at: '2026-11-23T10:00:00.000Z',
            kind: 'circuit',
            action: 'circuit.open',
            object: { id: 'groq', name: null },
            providers: ['groq'],
            credential: '9f21',
            model: 'llama-3.3-70b',
            details: ['closed → open', 'timeout'],
            request: 'req_kdvbwqhzmrtckdvbwqhz',
          },
        ],
        has_more: false,
        next: null,
        from: '2026-11-22T10:00:00.000Z',
        to: '2026-11-23T10:00:00.000Z',
      },
    },
    async handle(deps, call) {
      const query: ChangesQuery = call.query
      const range = rangeOf(query, 'changes', deps.gateway.world.date() + 1)
      if (!range) return bad(invalid([{ path: 'from', message: 'It must be before `to`.' }], 'query'))
      const { limit, after } = query
      // Entries after the cursor are of its time or older.
      const last = after === undefined ? NaN : Date.parse(after.split(' ')[0] ?? '')
      if (after !== undefined && Number.isNaN(last))
        return bad(invalid([{ path: 'after', message: 'Send `next` of the page before.' }], 'query'))
      const wanted = after === undefined ? range : { ...range, to: Math.min(range.to, last + 1) }
      const writes = await writesIn(deps, call, wanted)
      if (!writes.ok) return writes
      const reloads =
        call.teams === null
          ? deps.configuration
              .reloads()
              .filter(({ at, outcome }) => at >= wanted.from && at < wanted.to && outcome !== 'unchanged')
              .map((entry) => reloadChange(entry))
          : []
      const all = [...writes.value, ...reloads, ...(await processChanges(deps, call, wanted))]
      const { from, to } = range
      const page = pageOf(all, { limit, after, isDescending: true }, cursorOf)
      return good({ body: { ...page, from: iso(from), to: iso(to) } })
    },
  }),
]
