/**
 * Answers with several choices: each choice is read by a decoder of its own, as if it were the only one, and the events of
 * all of them are merged into what the answer as a whole does. Used only where a request asks for more than one choice.
 */
import type { ChatEvent, ChatRequest, Finish } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, list, number, readJson } from '../../core/json.ts'
import type {
  ChoiceEvents,
  Frame,
  StreamDecoder,
  StreamStep,
  UpstreamChoices,
  UpstreamProtocol,
} from '../../core/protocol.ts'
import { exceedsDepth, MAX_DEPTH } from './tool-arguments.ts'

/** How many choices a request asks for. */
export const choicesOf = ({ settings }: ChatRequest): number => settings.choices?.value ?? 1

/**
 * The entries of the list `member` by their index, each group alone in a copy of the body, as index 0. Entries without
 * an index are the first, or in order where none of them has one.
 */
export const splitList =
  (member: string) =>
  (body: Json): ReadonlyMap<number, Json> => {
    const parts = new Map<number, JsonObject>()
    if (!isObject(body)) return parts
    const entries = list(body[member])
    const isIndexed = entries.some((entry) => isObject(entry) && number(entry.index) !== undefined)
    for (const [position, entry] of entries.entries()) {
      const index = (isObject(entry) ? number(entry.index) : undefined) ?? (isIndexed ? 0 : position)
      const alone = isObject(entry) ? { ...entry, index: 0 } : entry
      const before = parts.get(index)
      parts.set(index, { ...body, [member]: [...list(before?.[member]), alone] })
    }
    return parts
  }

/** How an answer with several choices is read. */
export type MultipleChoices = {
  readonly format: Pick<UpstreamProtocol, 'decodeAnswer' | 'decodeStream'>
  readonly split: UpstreamChoices['split']
  /** How many the request asks for; others are left out. */
  readonly count: number
  /** The upstream speaks the client's own format: a stream passes as it is, and fewer choices are an answer too. */
  readonly passes: boolean
}

/** Changes to the events of one choice, in order. */
export type EditChoice = (index: number, events: readonly ChatEvent[]) => readonly ChatEvent[]

/** A whole answer with several choices, as one step. */
export const decodeChoices = (
  body: Json,
  { format, split, count, passes }: MultipleChoices,
  mend: EditChoice,
): StreamStep => {
  const bodies = isList(body) ? body : [body]
  const parts = bodies.map(split)
  const found = indicesTo(count).filter((index) => parts.some((part) => part.has(index)))
  const hasNone = parts.every((part) => part.size === 0)
  if (found.length < count && !hasNone && !passes) {
    const message = `The provider returned ${found.length} of the ${count} choices that the request asks for.`
    return { events: [{ type: 'failure', failure: fail('malformed', message) }] }
  }
  const indices = found.length > 0 ? found : indicesTo(passes ? 1 : count)
  const merger = new Merger(indices.length)
  return merger.merge(
    indices.map((index) => {
      const own = parts.flatMap(
        (part, at) => part.get(index) ?? (part.size === 0 || found.length === 0 ? (bodies[at] ?? []) : []),
      )
      const [only] = own
      const events = format.decodeAnswer(isList(body) || only === undefined ? own : only)
      return { index, events: mend(index, events) }
    }),
  )
}

const indicesTo = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index)

/** Reads a stream with several choices: each event goes to the decoder of its choice, or to all. */
export class ChoicesDecoder {
  readonly #decoders: readonly StreamDecoder[]
  readonly #split: UpstreamChoices['split']
  readonly #mend: EditChoice
  readonly #merger: Merger
  /** The choices that have had an event of their own. */
  readonly #seen = new Set<number>()

  constructor({ format, split, count }: MultipleChoices, mend: EditChoice) {
    this.#decoders = indicesTo(count).map(() => format.decodeStream())
    this.#split = split
    this.#mend = mend
    this.#merger = new Merger(count)
  }

  get over(): boolean {
    return this.#decoders.every(({ over }) => over === true)
  }

  push(frame: Frame): StreamStep {
    const body = frame.oversized ? undefined : readJson(frame.data)
    if (exceedsDepth(body, DEEPEST_EVENT)) return { frame, ...this.#merger.merge(TOO_DEEP) }
    const parts = body === undefined || frame.event === 'error' ? NO_PARTS : this.#split(body)
    if (parts.size === 0) return this.#step((decoder) => decoder.push(frame), frame)
    return this.#step((decoder, index) => {
      const part = parts.get(index)
      if (part === undefined) return NOTHING
      this.#seen.add(index)
      return decoder.push({ data: JSON.stringify(part), ...(frame.event !== undefined && { event: frame.event }) })
    }, frame)
  }

  end(): StreamStep {
    return this.#step((decoder) => decoder.end())
  }

  #step(read: (decoder: StreamDecoder, index: number) => readonly ChatEvent[], frame?: Frame): StreamStep {
    const each = this.#decoders.flatMap((decoder, index): ChoiceEvents[] => {
      const events = read(decoder, index)
      if (events.length === 0) return []
      const isMissing = !this.#seen.has(index) && events.some(isUnexplained)
      return [{ index, events: isMissing ? MISSING : this.#mend(index, events) }]
    })
    return { ...(frame && { frame }), ...this.#merger.merge(each) }
  }
}

/** Levels of an event. Parts of it are written as JSON again, which overflows the stack at some thousands. */
const DEEPEST_EVENT = 2 * MAX_DEPTH
const TOO_DEEP: readonly ChoiceEvents[] = [
  {
    index: 0,
    events: [{ type: 'failure', failure: fail('malformed', 'An event of the stream is nested too deeply.') }],
  },
]

const NOTHING: readonly ChatEvent[] = []
const NO_PARTS: ReadonlyMap<number, Json> = new Map()

/** A terminator ends every decoder's answer, but a choice that never began has not ended. */
const isUnexplained = (event: ChatEvent): boolean => event.type === 'finish' && event.finish.raw === null
const MISSING: readonly ChatEvent[] = [
  {
    type: 'failure',
    failure: fail('truncated', 'The stream ended without all the choices that the request asks for.'),
  },
]

/** Merges the events of the choices: one start, one usage, one finish after the last choice, one failure for all. */
class Merger {
  readonly #count: number
  readonly #finishes = new Map<number, Finish>()
  #started = false
  #failed = false

  constructor(count: number) {
    this.#count = count
  }

  merge(each: readonly ChoiceEvents[]): Pick<StreamStep, 'events' | 'choices'> {
    if (this.#failed) return { events: [] }
    const events: ChatEvent[] = []
    const choices: ChoiceEvents[] = []
    let usage: ChatEvent | undefined
    let ping: ChatEvent | undefined
    let failure: ChatEvent | undefined
    const before = this.#finishes.size
    for (const { index, events: given } of each) {
      const own: ChatEvent[] = []
      for (const event of given)
        switch (event.type) {
          case 'start':
            if (!this.#started) events.push(event)
            this.#started = true
            break
          case 'usage':
            usage = event
            break
          case 'ping':
            ping = event
            break
          case 'failure':
            failure ??= event
            break
          case 'finish':
            this.#finishes.set(index, event.finish)
            own.push(event)
            break
          default:
            events.push(event)
            own.push(event)
        }
      if (own.length > 0) choices.push({ index, events: own })
    }
    if (failure) {
      this.#failed = true
      return { events: usage ? [usage, failure] : [failure] }
    }
    if (usage) events.push(usage)
    if (ping && events.length === 0) events.push(ping)
    const finish = this.#finishes.size > before ? this.#finish() : undefined
    if (finish) events.push({ type: 'finish', finish })
    return { events, choices }
  }

  /** The first end that is not an ordinary one; undefined until every choice has finished. */
  #finish(): Finish | undefined {
    if (this.#finishes.size < this.#count) return undefined
    const all = [...this.#finishes.values()]
    return all.find(({ kind }) => kind !== 'stop') ?? all[0]
  }
}
