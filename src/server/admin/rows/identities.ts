/** Subjects of signed tokens: those that have called, and those that are blocked. */
import { z } from 'zod'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import { isObject, type JsonObject, list, number, text } from '../../../core/json.ts'
import type { SeenIdentity } from '../../../core/seen-identity.ts'
import type { TokenRule } from '../../../core/token-rule.ts'
import { parseSubjectKey, subjectKey } from '../../../policy/identity/token-client.ts'
import { time } from '../../../records/entities/shown.ts'
import { IDENTITIES, type IDENTITY, IDENTITY_DECISION } from '../../answers/identities.ts'
import { runFor } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { askProcesses } from '../processes.ts'
import { type AdminCall, row } from '../row.ts'
import { invalid } from '../validation.ts'

const ruleName = z
  .string()
  .min(1)
  .max(32)
  .describe('Name of a rule of `auth.jwt`; the block holds in all rules for its issuer')
const subjectName = z.string().min(1).max(200).describe('As the claim `subject` of the rule has it')

type ShownIdentity = z.output<typeof IDENTITY>
type NamedSubject = { readonly rule: string; readonly subject: string }
type Decided = { readonly state: 'blocked' | null; readonly until: string | null; readonly reason: string }

const decide = async (
  deps: AdminDeps,
  call: AdminCall<unknown, unknown, NamedSubject>,
  { state, until, reason }: Decided,
): Promise<Outcome<{ readonly body: z.output<typeof IDENTITY_DECISION> }>> => {
  const named = call.body
  const found = deps.configuration.running().tokenRules.find(({ name }) => name === named.rule)
  if (!found)
    return bad(
      fail('not_found', 'No rule of auth.jwt has this name. `headgate identities list` shows the rules in use.'),
    )
  if (until !== null && Date.parse(until) <= deps.gateway.world.date())
    return bad(invalid([{ path: 'until', message: 'The time is in the past.' }]))
  const id = subjectKey({ rule: found, subject: named.subject })
  const end = until === null ? null : new Date(until).toISOString()
  const result = await runFor(deps.control, call, { do: 'decide', kind: 'identity', id, state, until: end, reason })
  if (!result.ok) return result
  const { rule, subject } = named
  return good({ body: { object: 'identity' as const, rule, subject, blocked: state !== null } })
}

/** The subjects of all processes as one list, by ID. */
const merged = (lists: readonly (readonly SeenIdentity[])[]): readonly SeenIdentity[] => {
  const found = new Map<string, SeenIdentity>()
  for (const one of lists.flat()) {
    const known = found.get(one.id)
    const latest = known && known.last > one.last ? known : one
    found.set(one.id, { ...latest, first: Math.min(one.first, known?.first ?? one.first) })
  }
  return [...found.values()].toSorted((one, other) => other.last - one.last)
}

const iso = (at: number): string => new Date(at).toISOString()

const blockOf = (decision: JsonObject | undefined): ShownIdentity['blocked'] => {
  if (!decision) return null
  const until = number(decision.until)
  return {
    until: until === undefined ? null : iso(until),
    reason: text(decision.reason) ?? '',
    actor: text(decision.actor) ?? '',
    at: iso(number(decision.at) ?? 0),
  }
}

const listed = (
  seen: readonly SeenIdentity[],
  decisions: readonly JsonObject[],
  rules: readonly TokenRule[],
): readonly ShownIdentity[] => {
  const blocked = new Map(decisions.map((one) => [text(one.id) ?? '', one]))
  const shown = seen.map((one) => {
    const { rule: name, first, last, ...same } = one
    const own = rules.find((each) => each.name === name)
    const key = own ? subjectKey({ rule: own, subject: one.subject }) : ''
    const block = blockOf(blocked.get(key))
    blocked.delete(key)
    return { ...same, rule: name, first: iso(first), last: iso(last), blocked: block }
  })
  const unseen = [...blocked].map(([key, decision]) => {
    const { issuer, claim, subject: name } = parseSubjectKey(key)
    const own = rules.find(({ keys, subject: of }) => keys.issuer === issuer && of === claim)
    const none = { id: null, user: null, team: null, first: null, last: null }
    return { ...none, rule: own?.name ?? null, issuer, subject: name, blocked: blockOf(decision) }
  })
  return [...shown, ...unseen]
}

const EXAMPLE = {
  id: 'jwt_kdvbwqhzmrtc',
  rule: 'cluster',
  issuer: 'https://issuer.example',
  subject: 'system:serviceaccount:search:indexer',
  user: null,
  team: 'search',
  first: '2026-11-27T09:00:00.000Z',
  last: '2026-11-27T10:00:00.000Z',
  blocked: null,
}

export const identityRows = [
  row({
    method: 'GET',
    path: '/identities',
    summary: 'List the subjects of signed tokens, the latest first',
    about:
      'Those that have called since the start of the processes, at most 1,000 of each, and all that are blocked. Earlier use is in the usage, by `id` as the key.',
    role: 'viewer',
    scope: 'all',
    answer: IDENTITIES,
    example: { answer: { object: 'list', data: [EXAMPLE], has_more: false, next: null } },
    async handle(deps, call) {
      const [found, { answers }] = await Promise.all([
        runFor<unknown>(deps.control, call, { do: 'decisions' }),
        askProcesses(deps, { do: 'identities' }),
      ])
      if (!found.ok) return found
      const body = 'body' in found.value ? found.value.body : undefined
      const decisions = list(isObject(body) ? body.data : undefined).filter(isObject)
      // `answerHere` of the same program.
      const seen = merged(answers.map(({ value }) => list(value.identities) as unknown as readonly SeenIdentity[]))
      const blocked = decisions.filter(({ kind }) => kind === 'identity')
      const data = listed(seen, blocked, deps.configuration.running().tokenRules)
      return good({ body: { object: 'list' as const, data: [...data], has_more: false, next: null } })
    },
  }),
  row({
    method: 'POST',
    path: '/identities/block',
    summary: 'Block a subject of signed tokens',
    about:
      'Its requests are refused with 401 in all processes, whatever token it sends. Requests in progress are completed. At most 10,000 can be blocked.',
    role: 'operator',
    scope: 'all',
    body: z.strictObject({
      rule: ruleName,
      subject: subjectName,
      until: time.nullable().default(null).describe('null: until it is unblocked'),
      reason: z.string().max(1_000).default(''),
    }),
    answer: IDENTITY_DECISION,
    example: {
      body: { rule: 'cluster', subject: 'system:serviceaccount:search:indexer', reason: 'leaked token' },
      answer: { object: 'identity', rule: 'cluster', subject: 'system:serviceaccount:search:indexer', blocked: true },
    },
    handle: (deps, call) => decide(deps, call, { state: 'blocked', until: call.body.until, reason: call.body.reason }),
  }),
  row({
    method: 'POST',
    path: '/identities/unblock',
    summary: 'Unblock a subject of signed tokens',
    role: 'operator',
    scope: 'all',
    body: z.strictObject({ rule: ruleName, subject: subjectName }),
    answer: IDENTITY_DECISION,
    example: {
      body: { rule: 'cluster', subject: 'system:serviceaccount:search:indexer' },
      answer: { object: 'identity', rule: 'cluster', subject: 'system:serviceaccount:search:indexer', blocked: false },
    },
    handle: (deps, call) => decide(deps, call, { state: null, until: null, reason: '' }),
  }),
]
