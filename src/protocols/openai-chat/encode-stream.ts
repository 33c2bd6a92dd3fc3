import {
  type Block,
  type ChatEvent,
  type Finish,
  isContent,
  type ReasoningSignature,
  type Usage,
} from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { isList, type JsonObject, object } from '../../core/json.ts'
import type { AnswerContext, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { encodeOpenaiFailure } from '../errors/openai-error.ts'
import { passFrame, writeFrame } from '../framing/sse.ts'
import { encodeCitation, encodeUsage, hasUrl } from '../shared/openai-finish-and-usage.ts'
import { type ForeignBlock, reportLost } from '../shared/output-media.ts'
import { writeDetails } from '../shared/reasoning-members.ts'
import { REFUSAL_TEXT } from '../shared/refusal-text.ts'
import { imagesOf, isLegacy, isOwn, reasonFor } from './answer.ts'
import { withDeltas } from './content-filter.ts'
import { withBothNames } from './reasoning-aliases.ts'

export const DONE = writeFrame(undefined, '[DONE]')

/**
 * A comment, without a blank line: then it is part of the next event. With one, openai-python takes it for an event
 * without data once the stream has used an id, and fails.
 */
export const PING = ': ping\n'

/** The in-band error, after which the stream stops without `[DONE]`, so that nobody takes it for complete. */
export const writeFailure = (
  failure: Failure,
  { requestId, id }: Pick<AnswerContext, 'requestId' | 'id'>,
  interrupted: boolean,
): string =>
  writeFrame(
    undefined,
    JSON.stringify(
      encodeOpenaiFailure(failure, { requestId: requestId ?? id('req'), ...(interrupted && { interrupted }) }),
    ),
  )

/** Writes chunks as OpenAI does: the role first, then deltas, the reason, the usage if it was asked for, `[DONE]`. */
export const encodeStream = (context: AnswerContext): StreamWriter => choiceWriter(context, 0)

/** The same for the choice with this index. */
export const choiceWriter = (context: AnswerContext, index: number): StreamWriter => {
  const legacy = isLegacy(context)
  const wantsUsage = context.request.settings.streamUsage?.value === true
  let id: string | undefined
  let model: string | undefined
  let created: number | undefined
  /** What every chunk begins with; made at the first. */
  let head = ''
  let over = false
  let content = false
  let block: Block | undefined
  let length = 0
  let before = 0
  let thought = ''
  let thoughts = 0
  let calls = 0
  let callEmpty = true
  let refused = false
  let finish: Finish | undefined
  let usage: Usage | undefined
  const begin = `"choices":[{"index":${index},"delta":`
  const tail = wantsUsage ? ',"usage":null}\n\n' : '}\n\n'

  /** `delta` and `logprobs` are JSON already. */
  const chunk = (delta: string, reason: string | null = null, logprobs = 'null'): string =>
    `${head}${begin}${delta},"logprobs":${logprobs},"finish_reason":${
      reason === null ? 'null' : `"${reason}"`
    }}]${tail}`

  const role = (first: Block | undefined): string[] => {
    if (head !== '') return []
    const shared = JSON.stringify({
      id: id ?? context.id('chatcmpl'),
      object: 'chat.completion.chunk',
      created: created ?? context.created,
      model: model ?? context.model,
    })
    head = `data: ${shared.slice(0, -1)},`
    return [chunk(`{"role":"assistant","content":${first?.type === 'tool-call' ? 'null' : '""'},"refusal":null}`)]
  }

  const callDelta = (members: JsonObject): string => {
    if (legacy) return JSON.stringify({ function_call: members.function ?? members.custom })
    return JSON.stringify({ tool_calls: [{ index: calls - 1, ...members }] })
  }

  const opened = (next: Block): string[] => {
    block = next
    const first = role(next)
    switch (next.type) {
      case 'tool-call': {
        calls++
        callEmpty = true
        // One call is all the old way can say.
        if (legacy && calls > 1) return first
        const { id, name, custom } = next
        const members: JsonObject = custom
          ? { id, type: 'custom', custom: { name, input: '' } }
          : { id, type: 'function', function: { name, arguments: '' } }
        return [...first, chunk(callDelta(members))]
      }
      case 'reasoning': {
        const separate = thoughts > 0
        thought = ''
        thoughts++
        thoughtOpen = !separate
        return first
      }
      case 'refusal':
        refused = true
        return first
      case 'text':
        length = 0
        return first
      case 'foreign':
        return [...first, ...shown(next)]
    }
  }
  /** Sound and pictures of this format, and pictures of others. */
  const shown = (next: ForeignBlock): string[] => {
    const images = imagesOf(next)
    if (isOwn(next)) return [chunk(JSON.stringify(next.raw))]
    reportLost(next, context, images.length)
    return images.length > 0 ? [chunk(JSON.stringify({ images }))] : []
  }
  /** Nothing needs to stand between this block of reasoning and what was thought before. */
  let thoughtOpen = true

  const written = (text: string, tokens: unknown): string[] => {
    if (!block) return []
    const logprobs = isList(tokens) && tokens.length > 0 ? tokens : undefined
    if (text === '' && !logprobs) return []
    switch (block.type) {
      case 'text':
        length += text.length
        return [
          chunk(
            `{"content":${JSON.stringify(text)}}`,
            null,
            logprobs && JSON.stringify({ content: logprobs, refusal: null }),
          ),
        ]
      case 'refusal':
        return [
          chunk(
            `{"refusal":${JSON.stringify(text)}}`,
            null,
            logprobs && JSON.stringify({ content: null, refusal: logprobs }),
          ),
        ]
      case 'reasoning': {
        const spaced = thoughtOpen ? text : `\n\n${text}`
        thoughtOpen = true
        thought += text
        return [chunk(`{"reasoning_content":${JSON.stringify(spaced)}}`)]
      }
      case 'tool-call':
        callEmpty = false
        if (legacy && calls > 1) return []
        return [chunk(callDelta(block.custom ? { custom: { input: text } } : { function: { arguments: text } }))]
      case 'foreign':
        return []
    }
  }

  const closed = (): string[] => {
    const last = block
    block = undefined
    if (last?.type === 'text') before += length
    if (last?.type !== 'tool-call' || !callEmpty || last.custom || (legacy && calls > 1)) return []
    // No arguments at all are `{}`: what a client collects has to be JSON.
    return [chunk(callDelta({ function: { arguments: '{}' } }))]
  }

  const proved = (proof: ReasoningSignature): string[] => {
    const summary = block?.type === 'reasoning' && block.summary ? { summary: true } : {}
    // The whole text with its proof in one piece: a client that appends lists keeps it as it is.
    const details = writeDetails({ text: thought, ...summary, proof }, Math.max(0, thoughts - 1))
    return [chunk(JSON.stringify({ reasoning_details: details }))]
  }

  const ended = (how: Finish): string[] => {
    finish = how
    const first = role(undefined)
    const words = how.kind === 'refusal' && !refused ? [chunk(`{"refusal":${JSON.stringify(REFUSAL_TEXT)}}`)] : []
    return [...first, ...words, chunk('{}', reasonFor(how, refused, legacy))]
  }

  const write = (event: ChatEvent): string[] => {
    switch (event.type) {
      case 'start':
        id ??= event.id
        model ??= event.model
        created ??= event.created
        return []
      case 'open':
        return opened(event.block)
      case 'delta':
        return written(event.text, event.logprobs)
      case 'citation':
        return hasUrl(event.citation)
          ? [chunk(JSON.stringify({ annotations: [encodeCitation(event.citation, before, length)] }))]
          : []
      case 'proof':
        return proved(event.proof)
      case 'close':
        return closed()
      case 'usage':
        usage = event.usage
        return []
      case 'finish':
        return ended(event.finish)
      case 'failure':
        over = true
        return [writeFailure(event.failure, context, content)]
      case 'ping':
        return []
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  return {
    push({ events }) {
      const out: string[] = []
      for (const event of events) {
        if (over) break
        out.push(...write(event))
        content ||= isContent(event)
      }
      return out
    },
    end() {
      if (over || !finish) return []
      over = true
      const last = wantsUsage && usage ? [`${head}"choices":[],"usage":${JSON.stringify(encodeUsage(usage))}}\n\n`] : []
      return [...last, DONE]
    },
    keepAlive: () => PING,
  }
}

/**
 * Forwards chunks byte for byte, with four differences: usage that was not requested, `id:` lines and everything after
 * the end are left out; errors become ours; `reasoning` is also given as `reasoning_content`.
 */
export const passStream = (context: AnswerContext): StreamWriter => new PassWriter(context)

/** Keeps nothing else of the question: the stream may be open for long. */
class PassWriter implements StreamWriter {
  readonly #requestId: string | undefined
  readonly #id: AnswerContext['id']
  readonly #wantsUsage: boolean
  #over = false
  #content = false
  #finished = false
  /** The last chunk was changed, and so has to be each that repeats its form. */
  #changed = false

  constructor({ request, requestId, id }: AnswerContext) {
    this.#wantsUsage = request.settings.streamUsage?.value === true
    this.#requestId = requestId
    this.#id = id
  }

  push({ frame, events }: StreamStep): readonly string[] {
    if (this.#over) return []
    let usage = false
    let filtered = false
    for (const event of events) {
      if (event.type === 'failure') {
        this.#over = true
        const { failure } = event
        const named = { id: this.#id, ...(this.#requestId !== undefined && { requestId: this.#requestId }) }
        return [writeFailure(failure, named, this.#content)]
      }
      this.#content ||= isContent(event)
      this.#finished ||= event.type === 'finish'
      filtered ||= event.type === 'finish' && event.finish.kind === 'content-filter'
      usage ||= event.type === 'usage'
    }
    if (!frame) return []
    const { data } = frame
    if (data === '') return [passFrame(frame)]
    if (isDone(data)) {
      this.#over = true
      return [DONE]
    }
    if (usage && !this.#wantsUsage && isOnlyUsage(data)) return []
    const named = withBothNames(filtered ? withDeltas(data) : data)
    this.#changed = named !== data
    // A line break in JSON text that parses is white space.
    return [this.#changed ? writeFrame(frame.event, named.replaceAll('\n', ' ')) : passFrame(frame)]
  }

  passes(): boolean {
    if (this.#over || this.#changed) return false
    this.#content = true
    return true
  }

  end(): readonly string[] {
    if (this.#over || !this.#finished) return []
    this.#over = true
    return [DONE]
  }

  keepAlive(): string {
    return PING
  }
}

/** openai-node compares for equality, so a space too many is not passed on. */
const isDone = (data: string): boolean => data === '[DONE]' || (data.length < 20 && data.trim() === '[DONE]')

/** The chunk OpenAI adds for `include_usage`: no choices, nothing but the count. */
const isOnlyUsage = (data: string): boolean => {
  try {
    const choices = object(JSON.parse(data))?.choices
    return isList(choices) && choices.length === 0
  } catch {
    // The reader has found it to be JSON already; if not, it is passed on like any other.
    return false
  }
}
