/** The report of a request that is not on a tape: the nearest recorded one, and the member in which they differ. */
import { isList, isObject, type Json, type JsonObject } from '../core/json.ts'
import { canonicalJson } from '../policy/idempotency-key.ts'
import { digestsOf, type TapeAsk } from './ask.ts'
import { NORMALISERS, normalised } from './masking.ts'
import { nameOf, type TapedExchange } from './tape-file.ts'

/** `at`: the member, such as `messages[13].content[0].text`. `offset`: where its texts begin to differ. */
export type Difference = {
  readonly at: string
  readonly offset?: number
  readonly recorded?: Json
  readonly asked?: Json
}

export type Nearest = {
  readonly exchange: TapedExchange
  readonly equal: number
  readonly differences: readonly Difference[]
}

/** Exchanges with an equal rank whose texts are compared. */
const MOST_COMPARED = 10
/** Members named. */
const MOST_NAMED = 3

/** The nearest: most equal leading messages, then fewest differing parts, then the longest common text. Null: there is none. */
export const nearestTo = (ask: TapeAsk, exchanges: readonly TapedExchange[]): Nearest | null => {
  const own = digestsOf(ask)
  let best = { leading: -1, differing: 0 }
  let equals: TapedExchange[] = []
  for (const exchange of exchanges) {
    const { messages, tools, settings } = exchange.digests
    let [leading, equal] = [0, 0]
    for (let at = 0; at < messages.length; at++) {
      if (messages[at] !== own.messages[at]) continue
      equal++
      if (leading === at) leading++
    }
    const members = [tools === own.tools, settings === own.settings, exchange.ask.model === ask.model]
    const same = [...members, exchange.ask.call === ask.call, exchange.ask.target === ask.target]
    const differing = Math.max(messages.length, own.messages.length) - equal + same.filter((one) => !one).length
    if (leading < best.leading || (leading === best.leading && differing > best.differing)) continue
    if (leading > best.leading || differing < best.differing) equals = []
    best = { leading, differing }
    if (equals.length < MOST_COMPARED) equals.push(exchange)
  }
  const compared = equals.map((exchange) => {
    const differences = differencesOf(exchange, ask, own.messages)
    const [first] = differences
    return { exchange, differences, equal: equalMessages(exchange, own.messages), offset: first?.offset ?? 0 }
  })
  return compared.reduce<(typeof compared)[number] | null>(
    (found, one) => (found === null || one.offset > found.offset ? one : found),
    null,
  )
}

const equalMessages = ({ digests }: TapedExchange, own: readonly string[]): number =>
  own.filter((digest, at) => digest === digests.messages[at]).length

/** The members that differ, in the order of the request. `own`: digests of the messages of `asked`. */
const differencesOf = (exchange: TapedExchange, asked: TapeAsk, own: readonly string[]): readonly Difference[] => {
  const { ask: recorded, digests } = exchange
  const length = Math.max(recorded.messages.length, asked.messages.length)
  const changed = Array.from({ length }, (_, at) => at).filter((at) => digests.messages[at] !== own[at])
  return [
    ...differences(recorded.call, asked.call, 'call'),
    ...differences(recorded.target ?? null, asked.target ?? null, 'target'),
    ...differences(recorded.model, asked.model, 'model'),
    ...changed.flatMap((at) => [...differences(recorded.messages[at], asked.messages[at], `messages[${at}]`)]),
    ...differences([...recorded.tools], [...asked.tools], 'tools'),
    ...differences(recorded.settings, asked.settings, ''),
  ]
}

function* differences(recorded: Json | undefined, asked: Json | undefined, at: string): Generator<Difference> {
  if (canonicalJson(recorded) === canonicalJson(asked) && recorded !== undefined && asked !== undefined) return
  if (typeof recorded === 'string' && typeof asked === 'string') {
    let offset = 0
    while (offset < recorded.length && recorded[offset] === asked[offset]) offset++
    yield { at, offset, recorded, asked }
  } else if (isList(recorded) && isList(asked)) {
    for (let index = 0; index < Math.max(recorded.length, asked.length); index++)
      yield* differences(recorded[index], asked[index], `${at}[${index}]`)
  } else if (isObject(recorded) && isObject(asked)) {
    for (const name of new Set([...Object.keys(recorded), ...Object.keys(asked)]))
      yield* differences(recorded[name], asked[name], at === '' ? name : `${at}.${name}`)
  } else yield { at, ...(recorded !== undefined && { recorded }), ...(asked !== undefined && { asked }) }
}

export const countText = (messages: number): string => `${messages} ${messages === 1 ? 'message' : 'messages'}`

/** The report as sentences. */
export const missText = (nearest: Nearest | null, ask: TapeAsk): string => {
  if (!nearest) return 'The tape has no exchange.'
  const { exchange, equal, differences: found } = nearest
  const of = Math.max(ask.messages.length, exchange.ask.messages.length)
  const head = `Nearest: ${nameOf(exchange)} (line ${exchange.line}), ${equal} of ${countText(of)} equal.`
  const [first, ...others] = found
  if (!first) return head
  const more = others.slice(0, MOST_NAMED - 1).map(({ at }) => at)
  const also = more.length > 0 ? ` Also ${more.join(', ')}${others.length > more.length ? ' and more' : ''}.` : ''
  return `${head} ${differenceText(first)}${also}${remedyOf(found)}`
}

const differenceText = ({ at, offset, recorded, asked }: Difference): string => {
  if (recorded === undefined) return `${at}: not recorded, asked ${excerpt(asked)}.`
  if (asked === undefined) return `${at}: recorded ${excerpt(recorded)}, not asked.`
  const place = offset === undefined ? at : `${at} at ${offset}`
  return `${place}: recorded ${excerpt(recorded, offset)}, asked ${excerpt(asked, offset)}.`
}

/** Characters shown before and after the difference. */
const [BEFORE, AFTER] = [12, 28]

const excerpt = (value: Json | undefined, offset = 0): string => {
  const whole = typeof value === 'string' ? value : canonicalJson(value)
  const from = Math.max(0, offset - BEFORE)
  const end = offset + AFTER
  return JSON.stringify(`${from > 0 ? '…' : ''}${whole.slice(from, end)}${end < whole.length ? '…' : ''}`)
}

/** A setting that makes the texts equal. */
const remedyOf = (found: readonly Difference[]): string => {
  const names = NORMALISERS.filter((name) =>
    found.every(
      ({ recorded, asked }) =>
        typeof recorded === 'string' &&
        typeof asked === 'string' &&
        normalised(recorded, [name]) === normalised(asked, [name]),
    ),
  )
  return names.length > 0 ? ` Equal with HEADGATE_TAPE_NORMALISE=${names[0]}.` : ''
}

/** One line of the list of misses. */
export const missRecord = (ask: TapeAsk, nearest: Nearest | null, more: JsonObject): JsonObject => ({
  call: ask.call,
  model: ask.model,
  messages: ask.messages.length,
  ...(nearest && { nearest: nameOf(nearest.exchange), line: nearest.exchange.line }),
  differs: nearest ? nearest.differences.slice(0, MOST_NAMED).map(({ at }) => at) : [],
  ...more,
})
