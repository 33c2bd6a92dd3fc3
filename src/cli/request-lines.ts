/** A request of the ledger as text: one line, and the waterfall of its attempts. */
import type { Paint } from '../observe/colour.ts'
import { plain } from '../observe/line.ts'
import type { Shown } from '../records/entities/shown.ts'
import { type ENDED_REQUEST, FOUND_REQUEST } from '../server/answers/requests.ts'
import { moneyText } from './table.ts'
import { padded, textWidth } from './text-width.ts'

/** A request with its attempts. In a list it has no further members, and a client sees less than an administrator. */
export const SHOWN_REQUEST = FOUND_REQUEST.partial({ same_client_id: true, limited_by: true, trace_url: true })
export type ShownRequest = Shown<typeof SHOWN_REQUEST>
export type EndedRequest = Shown<typeof ENDED_REQUEST>
type ShownAttempt = ShownRequest['attempts'][number]

const isFine = ({ outcome }: EndedRequest): boolean => outcome === 'answered'

const answeredBy = ({
  provider,
  model,
  cache,
}: Pick<EndedRequest, 'provider' | 'model'> & { readonly cache?: string }): string => {
  const target = provider === null ? null : `${provider}/${model ?? ''}`
  if (cache === 'hit') return target === null ? 'the cache' : `${target} (cached)`
  if (cache === 'shared') return target === null ? 'the answer of another request' : `${target} (shared)`
  return target ?? 'no target'
}

/** What an answer from the cache would have cost. */
const savedText = ({ saved }: EndedRequest): string => (Number(saved) > 0 ? `saved ${moneyText(saved)}` : '')

/** The names of the team and the key: `search/search-prod`. Empty without a key. */
const clientOf = ({ team, key }: EndedRequest): string => {
  const [ofTeam, ofKey] = [team, key].map((one) => one?.name ?? one?.id)
  return ofKey === undefined ? '' : plain(ofTeam === undefined ? ofKey : `${ofTeam}/${ofKey}`)
}

/** The model and what answered; of a request that was refused before it named a model, its path and the reason. */
const subjectOf = (request: EndedRequest): string => {
  const { asked, message } = request
  return asked === '' && message ? message.slice(0, 120) : `${asked} → ${answeredBy(request)}`
}

/** One line for the list and for `logs`: time, status, team and key, what answered, duration, tokens, cost, ID. */
export const requestLine = (request: EndedRequest, paint: Paint): string => {
  const { usage } = request
  const tokens = `${usage.input ?? '–'}→${usage.output ?? '–'}`
  const time = request.received_at.slice(11, 19)
  const parts = [
    (isFine(request) ? paint.good : paint.bad)(String(request.status)),
    clientOf(request),
    plain(subjectOf(request)),
    `${request.total_ms ?? '–'} ms (first ${request.first_content_ms ?? '–'})`,
    tokens,
    moneyText(request.cost),
    savedText(request),
    request.code ?? '',
    paint.dim(request.id),
  ]
  return `${paint.dim(time)} ${parts.filter((part) => part !== '').join('  ')}`
}

const count = (attempts: number): string =>
  attempts > 1 ? ` after ${attempts - 1} ${attempts === 2 ? 'fallback' : 'fallbacks'}` : ''

const attemptResult = (attempt: ShownAttempt): string => {
  const { started_ms: began, ended_ms: ended, first_content_ms: first, usage, outcome } = attempt
  const took = ended === null ? '' : ` after ${ended - began}`
  if (outcome !== 'ok') return `${attempt.kind ?? outcome}${took}`
  const content = first === null ? '' : `, first content ${first}`
  const tokens = usage.output === null ? '' : `, ${usage.output} tokens${ended === null ? '' : ` in ${ended - began}`}`
  return `${attempt.status ?? outcome}${content}${tokens}`
}

/** The waterfall: the requested model and what answered, each attempt with its beginning in ms, and the trail. */
export const waterfall = (request: ShownRequest, paint: Paint): readonly string[] => {
  const { attempts, key, trail } = request
  const isEstimated = attempts.some(({ usage }) => usage.source === 'estimated')
  const status = `${request.status}${count(attempts.length)}`
  const rows = attempts.map((attempt) => {
    const cost = `${moneyText(attempt.cost)}${attempt.usage.source === 'estimated' ? ' estimated' : ''}`
    return [
      String(attempt.started_ms),
      plain(answeredBy(attempt)),
      attempt.credential === undefined ? '' : `#${attempt.credential}`,
      plain(attemptResult(attempt)),
      cost,
    ]
  })
  const all = [['0 ms', 'gateway', '', `${((request.overhead_us ?? 0) / 1000).toFixed(1)}`, ''], ...rows]
  const widths = [0, 1, 2, 3].map((column) => Math.max(...all.map((row) => textWidth(row[column] ?? ''))))
  const lines = all.map(
    (row) =>
      `  ${row
        .map((cell, column) => padded(cell, widths[column] ?? 0))
        .join('  ')
        .trimEnd()}`,
  )
  return [
    [
      isFine(request) ? paint.good(status) : paint.bad(status),
      plain([request.asked, answeredBy(request)].filter(Boolean).join(' → ')),
      `${request.total_ms ?? '–'} ms${request.first_content_ms === null ? '' : ` (first content ${request.first_content_ms})`}`,
      `${moneyText(request.cost)}${isEstimated ? ', partly estimated' : ''}`,
      ...(savedText(request) === '' ? [] : [savedText(request)]),
      ...(key ? [`key ${plain(key.name ?? key.id)}`] : []),
    ].join(' · '),
    ...lines,
    ...decisionLines(request).map(([name, value]) => plain(`  ${name}: ${value}`)),
    ...guardLines(request),
    // The trail also lists the targets that were skipped, with the reason.
    ...(trail === null ? [] : [plain(`  trail: ${trail}`)]),
  ]
}

/** `guard: pii mask request: 2 EMAIL`. */
const guardLines = ({ guards, more_guards: more }: ShownRequest): readonly string[] => [
  ...guards.map(({ guard, phase, action, counts }) => {
    const found = Object.entries(counts).map(([label, count]) => `${count} ${label}`)
    return plain(`  guard: ${guard} ${action} ${phase}${found.length > 0 ? `: ${found.join(', ')}` : ''}`)
  }),
  ...(more > 0 ? [`  guards: ${more} more`] : []),
]

const RESOLVED: { readonly [by: string]: string } = {
  route: 'the name of a route',
  provider: 'provider/model',
  listed: 'a provider lists it',
  default: 'the default route',
}

/** `moved from anthropic: 152,000 tokens are not cached here, $0.45 more`. */
const switchLine = ({ act, from, cold, cost }: NonNullable<NonNullable<ShownRequest['decision']>['switch']>): string =>
  `${act === 'key' ? 'moved to another key of' : act === 'moved' ? 'moved from' : 'returned from'} ${from}: ${cold.toLocaleString('en')} tokens are not cached here${cost === null ? '' : `, ${cost.startsWith('-') ? `${moneyText(cost.slice(1))} less` : `${moneyText(cost)} more`}`}`

/** Why the request failed, and why it was routed as it was: lines with a name. */
const decisionLines = ({
  message,
  attempts,
  decision,
  limited_by: limitedBy,
  trace_url: traceUrl,
}: ShownRequest): readonly (readonly [string, string])[] => {
  const failures = attempts.flatMap(({ n, message: why }) => (why === null ? [] : [[`attempt ${n + 1}`, why] as const]))
  const { by = null, plan = [], more = 0, skipped = [], dropped = [], limit = null, switch: switched } = decision ?? {}
  const skips = skipped.map(({ target, key, why }) => `${target}${key === null ? '' : `#${key}`} (${why})`)
  const named = [
    ...failures,
    ['failed because', message ?? ''] as const,
    ['limit', [limitedBy?.name, limit].filter(Boolean).join(', ')] as const,
    ['resolved by', RESOLVED[by ?? ''] ?? ''] as const,
    ['plan', `${plan.join(', ')}${more > 0 ? ` and ${more} more` : ''}`] as const,
    ['skipped', skips.join(', ')] as const,
    ['not sent', dropped.join(', ')] as const,
    ['session', switched ? switchLine(switched) : ''] as const,
    ['trace', traceUrl ?? ''] as const,
  ]
  return named.filter(([, value]) => value !== '')
}
