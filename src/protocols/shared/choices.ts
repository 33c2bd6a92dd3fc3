/**
 * Answers with several choices. A separate decoder reads each choice as if it were the only one; a merger combines their
 * events into those of the whole answer. Used only for requests with more than one choice.
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

/** The number of choices in a request; 1 by default. */
export const choicesOf = ({ settings }: ChatRequest): number => settings.choices?.value ?? 1

/**
 * Splits a body by the `index` of the entries in its list `member`. Each part is a copy of the body with the entries of
 * one index, renumbered to 0. Entries without an index belong to choice 0, or are numbered in order if none has one.
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

/** How to decode an answer with several choices. */
export type MultipleChoices = {
  readonly format: Pick<UpstreamProtocol, 'decodeAnswer' | 'decodeStream'>
  readonly split: UpstreamChoices['split']
  /** Number of requested choices; further ones are dropped. */
  readonly count: number
  /** Client and upstream use the same format: streams pass through, and fewer choices are accepted. */
  readonly passes: boolean
}

/** Edits the events of one choice, in order. */
export type EditChoice = (index: number, events: readonly ChatEvent[]) => readonly ChatEvent[]

/** Decodes a non-streaming answer with several choices into one step. */
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
    const message = `The provider returned ${found.length} of the ${count} requested choices.`
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

/** Decodes a stream with several choices: each event goes to the decoder of its choice, or to all decoders. */
export class ChoicesDecoder {
  readonly #decoders: readonly StreamDecoder[]
  readonly #split: UpstreamChoices['split']
  readonly #mend: EditChoice
  readonly #merger: Merger
  /** Choices that received at least one event. */
  readonly #seen = new Set<number>()

  constructor({ format, split, count }: MultipleChoices, mend: EditChoice) {
    this.#decoders = indicesTo(count).map(() => format.decodeStream())
    this.#split = split
    this.#mend = mend
    this.#merger = new Merger(count)
  }

  get over(): boolean {
    return this.#decoders.every(({ done: over }) => over === true)
  }

  get mayBeOver(): boolean {
    return this.#decoders.every(({ done: over, mayBeDone }) => over === true || mayBeDone === true)
  }

  push(frame: Frame): StreamStep {
    const body = frame.oversized ? undefined : readJson(frame.data)
    if (exceedsDepth(body, MAX_EVENT_DEPTH)) return { frame, ...this.#merger.merge(TOO_DEEP) }
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
      const isMissing = !this.#seen.has(index) && events.some(isImplicitFinish)
      return [{ index, events: isMissing ? MISSING : this.#mend(index, events) }]
    })
    return { ...(frame && { frame }), ...this.#merger.merge(each) }
  }
}

/** Maximum nesting of an event. Its parts are stringified again, which overflows the stack at some thousands. */
const MAX_EVENT_DEPTH = 2 * MAX_DEPTH
const TOO_DEEP: readonly ChoiceEvents[] = [
  {
    index: 0,
    events: [{ type: 'failure', failure: fail('malformed', 'An event of the stream is nested too deeply.') }],
  },
]

const NOTHING: readonly ChatEvent[] = []
const NO_PARTS: ReadonlyMap<number, Json> = new Map()

/** A finish without a reason is caused by the end marker (`[DONE]`). It does not complete a choice without events. */
const isImplicitFinish = (event: ChatEvent): boolean => event.type === 'finish' && event.finish.raw === null
const MISSING: readonly ChatEvent[] = [
  {
    type: 'failure',
    failure: fail('truncated', 'The stream ended without all requested choices.'),
  },
]

/** Merges the events of all choices: one start, one usage, one finish after the last choice, one failure. */
class Merger {
  readonly #count: number
  readonly #finishes = new Map<number, Finish>()
  #started = false
  /** All choices have finished. Later input cannot fail the answer. */
  #complete = false
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
            if (!this.#complete) failure ??= event
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
    if (finish) {
      this.#complete = true
      events.push({ type: 'finish', finish })
    }
    return { events, choices }
  }

  /** The first finish that is not `stop`; undefined until every choice has finished. */
  #finish(): Finish | undefined {
    if (this.#finishes.size < this.#count) return undefined
    const all = [...this.#finishes.values()]
    return all.find(({ kind }) => kind !== 'stop') ?? all[0]
  }
}
