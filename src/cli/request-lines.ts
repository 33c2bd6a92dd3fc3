/** A request of the ledger as text: one line, and the waterfall of its attempts. */
import { isObject, type Json, type JsonObject, list, number, object, text } from '../core/json.ts'
import type { Paint } from '../observe/colour.ts'
import { plain } from '../observe/line.ts'
import { moneyText } from './table.ts'
import { padded, textWidth } from './text-width.ts'

const isFine = (request: JsonObject): boolean => request.outcome === 'answered'

const answeredBy = ({ provider, model, cache }: JsonObject): string => {
  const target = typeof provider === 'string' ? `${provider}/${text(model) ?? ''}` : null
  if (cache === 'hit') return target === null ? 'the cache' : `${target} (cached)`
  if (cache === 'shared') return target === null ? 'the answer of another request' : `${target} (shared)`
  return target ?? 'no target'
}

/** What an answer from the cache would have cost. */
const savedText = ({ saved }: JsonObject): string => (Number(text(saved)) > 0 ? `saved ${moneyText(text(saved))}` : '')

/** The names of the team and the key: `search/search-prod`. Empty without a key. */
const clientOf = ({ team, key }: JsonObject): string => {
  const [ofTeam, ofKey] = [object(team), object(key)].map((one) => text(one?.name) ?? text(one?.id))
  return ofKey === undefined ? '' : plain(ofTeam === undefined ? ofKey : `${ofTeam}/${ofKey}`)
}

/** The model and what answered; of a request that was refused before it named a model, its path and the reason. */
const subjectOf = (request: JsonObject): string => {
  const [asked, message] = [text(request.asked) ?? '', text(request.message) ?? '']
  return asked === '' && message !== '' ? message.slice(0, 120) : `${asked} → ${answeredBy(request)}`
}

/** One line for the list and for `logs`: time, status, team and key, what answered, duration, tokens, cost, ID. */
export const requestLine = (request: JsonObject, paint: Paint): string => {
  const usage = object(request.usage)
  const tokens = `${number(usage?.input) ?? '–'}→${number(usage?.output) ?? '–'}`
  const status = String(number(request.status) ?? '–')
  const time = text(request.received_at)?.slice(11, 19) ?? ''
  const parts = [
    (isFine(request) ? paint.good : paint.bad)(status),
    clientOf(request),
    plain(subjectOf(request)),
    `${number(request.total_ms) ?? '–'} ms (first ${number(request.first_content_ms) ?? '–'})`,
    tokens,
    moneyText(text(request.cost)),
    savedText(request),
    text(request.code) ?? '',
    paint.dim(text(request.id) ?? ''),
  ]
  return `${paint.dim(time)} ${parts.filter((part) => part !== '').join('  ')}`
}

const count = (attempts: number): string =>
  attempts > 1 ? ` after ${attempts - 1} ${attempts === 2 ? 'fallback' : 'fallbacks'}` : ''

const attemptResult = (attempt: JsonObject): string => {
  const [began, ended] = [number(attempt.started_ms) ?? 0, number(attempt.ended_ms)]
  const took = ended === undefined ? '' : ` after ${ended - began}`
  if (attempt.outcome !== 'ok') return `${text(attempt.kind) ?? text(attempt.outcome) ?? ''}${took}`
  const first = number(attempt.first_content_ms)
  const output = number(object(attempt.usage)?.output)
  const content = first === undefined ? '' : `, first content ${first}`
  const tokens = output === undefined ? '' : `, ${output} tokens${ended === undefined ? '' : ` in ${ended - began}`}`
  return `${number(attempt.status) ?? text(attempt.outcome)}${content}${tokens}`
}

/** The waterfall: the requested model and what answered, each attempt with its beginning in ms, and the trail. */
export const waterfall = (request: JsonObject, paint: Paint): readonly string[] => {
  const attempts = list(request.attempts).filter(isObject)
  const isEstimated = attempts.some((attempt) => object(attempt.usage)?.source === 'estimated')
  const status = `${number(request.status) ?? text(request.outcome)}${count(attempts.length)}`
  const key = object(request.key)
  const rows = attempts.map((attempt) => {
    const cost = `${moneyText(text(attempt.cost))}${object(attempt.usage)?.source === 'estimated' ? ' estimated' : ''}`
    const credential = text(attempt.credential)
    return [
      String(number(attempt.started_ms) ?? 0),
      plain(answeredBy(attempt)),
      credential === undefined ? '' : `#${credential}`,
      plain(attemptResult(attempt)),
      cost,
    ]
  })
  const all = [['0 ms', 'gateway', '', `${((number(request.overhead_us) ?? 0) / 1000).toFixed(1)}`, ''], ...rows]
  const widths = [0, 1, 2, 3].map((column) => Math.max(...all.map((row) => textWidth(row[column] ?? ''))))
  const lines = all.map(
    (row) =>
      `  ${row
        .map((cell, column) => padded(cell, widths[column] ?? 0))
        .join('  ')
        .trimEnd()}`,
  )
  const trail = text(request.trail)
  return [
    [
      isFine(request) ? paint.good(status) : paint.bad(status),
      plain([text(request.asked) ?? '', answeredBy(request)].filter(Boolean).join(' → ')),
      `${number(request.total_ms) ?? '–'} ms${number(request.first_content_ms) === undefined ? '' : ` (first content ${number(request.first_content_ms)})`}`,
      `${moneyText(text(request.cost))}${isEstimated ? ', partly estimated' : ''}`,
      ...(savedText(request) === '' ? [] : [savedText(request)]),
      ...(key ? [`key ${plain(text(key.name) ?? text(key.id) ?? '')}`] : []),
    ].join(' · '),
    ...lines,
    ...decisionLines(request).map(([name, value]) => plain(`  ${name}: ${value}`)),
    // The trail also lists the targets that were skipped, with the reason.
    ...(trail === undefined ? [] : [plain(`  trail: ${trail}`)]),
  ]
}

const RESOLVED: { readonly [by: string]: string } = {
  route: 'the name of a route',
  provider: 'provider/model',
  listed: 'a provider lists it',
  default: 'the default route',
}

const texts = (value: Json | undefined): readonly string[] => list(value).filter((one) => typeof one === 'string')

/** Why the request failed, and why it was routed as it was: lines with a name. */
const decisionLines = ({
  message,
  attempts,
  decision,
  limited_by: limitedBy,
}: JsonObject): readonly (readonly [string, string])[] => {
  const failures = list(attempts)
    .filter(isObject)
    .flatMap((attempt) => {
      const why = text(attempt.message)
      return why === undefined ? [] : [[`attempt ${(number(attempt.n) ?? 0) + 1}`, why] as const]
    })
  const { by, plan, more, skipped, dropped, limit } = object(decision) ?? {}
  const planned = texts(plan)
  const rest = number(more) ?? 0
  const skips = list(skipped)
    .filter(isObject)
    .map(({ target, key, why }) => `${text(target)}${text(key) === undefined ? '' : `#${text(key)}`} (${text(why)})`)
  const named = [
    ...failures,
    ['failed because', text(message) ?? ''] as const,
    ['limit', [text(object(limitedBy)?.name), text(limit)].filter(Boolean).join(', ')] as const,
    ['resolved by', RESOLVED[text(by) ?? ''] ?? ''] as const,
    ['plan', `${planned.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`] as const,
    ['skipped', skips.join(', ')] as const,
    ['not sent', texts(dropped).join(', ')] as const,
  ]
  return named.filter(([, value]) => value !== '')
}
