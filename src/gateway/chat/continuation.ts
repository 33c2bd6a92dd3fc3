/**
 * An answer of plain text that broke off in the middle, gone on with by another model that takes the beginning of its
 * own answer: what has been said is put behind the conversation as the model's own turn, and what comes back follows it
 * in the client's stream, which begins no second time and never learns of it but by a comment.
 *
 * Opt-in (`stream.continue`), once a request, and only where nothing can be joined wrongly: half a call, half a grammar
 * or a thought that is sealed cannot be gone on with by another. So only text in, text out, one choice, and no sequence
 * that ends an answer, of which half may stand on either side of the seam.
 */

import type { ChatEvent, ChatRequest, Usage } from '../../core/chat.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import { type Failure, fail, rowOf } from '../../core/failure.ts'
import type { Json } from '../../core/json.ts'
import type { StreamStep } from '../../core/protocol.ts'
import type { Settings } from '../../core/settings.ts'
import type { Sink } from '../../core/stage.ts'
import type { Candidate } from '../../core/target.ts'
import { Cancellation } from '../call/cancellation.ts'
import { InputCount, type OutputSample, type TokenUsage, usageOf } from '../call/usage.ts'
import type { Routed } from '../routing/router.ts'
import { type AnswerStream, internalError } from '../upstream/attempt.ts'
import type { InboundRequest, OutboundRequest } from '../upstream/outbound-request.ts'

/** Whether an answer to this could be gone on with by another, should it break off. */
export const mayBeContinued = ({ request }: InboundRequest, { stream }: Settings): boolean => {
  const { settings, tools, messages, extras } = request
  const { stop, choices, logprobs, topLogprobs, format, effort, thinkingBudget, reasoningSummary, sealedReasoning } =
    settings
  const isText = !format || format.value.kind === 'text'
  const onlyOne = !choices || choices.value === 1
  const endsByItself = !stop || stop.value.length === 0
  const unlikely = logprobs?.value !== true && !topLogprobs
  const thinks = [effort, thinkingBudget, reasoningSummary, sealedReasoning].some((wish) => wish !== undefined)
  return (
    stream.continue &&
    request.stream &&
    tools.length === 0 &&
    isText &&
    onlyOne &&
    endsByItself &&
    unlikely &&
    !thinks &&
    messages.length > 0 &&
    messages.at(-1)?.role !== 'assistant' &&
    messages.every(({ content }) => content.every(({ type }) => type === 'text')) &&
    extras.every(({ essential }) => !essential)
  )
}

/** Whether its model goes on from the beginning of its own answer, by its vendor's document. */
export const takesPrefill = ({ instance, model }: Candidate): boolean => {
  const { supportsPrefill: takesPrefill } = instance.provider
  return takesPrefill !== undefined && (takesPrefill.models?.test(model) ?? true)
}

/** The question with what has been said; null: nothing may be said any more. `output`: tokens said so far. */
export const continued = (question: InboundRequest, text: string, output: number): InboundRequest | null => {
  const { request } = question
  const limit = request.settings.maxOutputTokens
  const left = limit && limit.value - output
  if (left !== undefined && left < 1) return null
  const at = request.messages.at(-1)?.at ?? 'messages'
  const messages: ChatRequest['messages'] = [
    ...request.messages,
    { role: 'assistant', at, content: [{ type: 'text', at, text }] },
  ]
  const settings = limit
    ? { ...request.settings, maxOutputTokens: { ...limit, value: left ?? limit.value } }
    : request.settings
  return { ...question, reencode: { without: [] }, continues: true, request: { ...request, messages, settings } }
}

/**
 * Whether the upstream broke the answer off: not the client, this process or a policy. An answer above the size limit is
 * not continued, since the next provider would receive all of it as input.
 */
const isBreak = (failure: Failure): boolean => {
  const { side, excludes: condemns } = rowOf(failure)
  return side === 'upstream' && condemns !== 'request' && failure.kind !== 'too_large'
}

type Next = {
  /** Asks another; null: nobody could be. `stop`: how the asking is ended. */
  readonly ask: (text: string, output: number, stop: Cancellation) => Promise<Routed<OutboundRequest> | null>
  /** Another goes on, from now. */
  readonly seam: (before: Routed<OutboundRequest>, after: Routed<OutboundRequest>, failure: Failure) => void
  /** A bug of ours. */
  readonly report: (error: unknown) => void
}

/** The flow of an answer that may be gone on with by another. */
export class ContinuedFlow implements AnswerStream {
  readonly status: number
  readonly whole: string | null
  readonly body: Json | undefined
  readonly source: EncodedText | null
  readonly #asked: InputCount
  readonly #next: Next
  readonly #pieces: string[] = []
  #won: Routed<OutboundRequest>
  /** What was used before the seam; null: there was none. */
  #before: (TokenUsage & { readonly said: OutputSample; readonly dropped: number }) | null = null
  /** A block of text is open, and nothing else was said. */
  #inText = false
  #plain = true
  /** Between two who answer: how to stop looking for the second. */
  #gap: Cancellation | null = null
  /** Nobody wants the rest: its client left, perhaps as the head was written, before anything was poured. */
  #aborted = false

  constructor(won: Routed<OutboundRequest>, request: ChatRequest, next: Next) {
    this.#won = won
    this.#asked = new InputCount(request)
    this.#next = next
    this.status = won.flow.status
    this.whole = won.flow.whole
    this.body = won.flow.body
    this.source = won.flow.source
  }

  /** Who answers now. */
  get won(): Routed<OutboundRequest> {
    return this.#won
  }

  finished(): boolean {
    return this.#won.flow.finished()
  }
  id(): string | null {
    return this.#won.flow.id()
  }
  usage(): Usage | null {
    const now = this.#won.flow.usage()
    return now && this.#before ? sum(this.#before.usage, now) : now
  }
  output(): OutputSample {
    const now = this.#won.flow.output()
    return this.#before
      ? { length: this.#before.said.length + now.length, beginning: this.#before.said.beginning }
      : now
  }
  droppedEvents(): number {
    return (this.#before?.dropped ?? 0) + this.#won.flow.droppedEvents()
  }
  /** Of both, the seam included. */
  used(): TokenUsage {
    const now = usageOf(this.#won.flow, this.#asked)
    return this.#before ? { usage: sum(this.#before.usage, now.usage), estimated: true } : now
  }
  resume(): void {
    if (!this.#gap) this.#won.flow.resume()
  }
  abort(): void {
    this.#aborted = true
    if (this.#gap) this.#gap.cancel(fail('client_gone', 'the client left before the end'))
    else this.#won.flow.abort()
  }
  failWith(failure: Failure): void {
    if (this.#gap) this.#gap.cancel(failure)
    else this.#won.flow.failWith(failure)
  }

  pipeTo(sink: Sink<readonly StreamStep[]>): void {
    this.#won.flow.pipeTo({
      push: (steps) => {
        for (const { events } of steps) for (const event of events) this.#watch(event)
        return sink.push(steps)
      },
      end: (failure) => {
        const mayGoOn = !this.#aborted && this.#plain && this.#inText
        if (failure && mayGoOn && isBreak(failure)) this.#goOn(sink, failure)
        else sink.end(failure)
      },
    })
  }

  #watch(event: ChatEvent): void {
    switch (event.type) {
      case 'open':
        this.#inText = event.block.type === 'text'
        this.#plain &&= this.#inText
        break
      case 'delta':
        this.#pieces.push(event.text)
        this.#plain &&= event.logprobs === undefined
        break
      case 'close':
        this.#inText = false
        break
      case 'citation':
      case 'proof':
        this.#plain = false
    }
  }

  #goOn(sink: Sink<readonly StreamStep[]>, failure: Failure): void {
    const said = this.#pieces.join('')
    // At the end of a turn white space is refused (Anthropic), or makes the next word another one.
    const text = said.trimEnd()
    if (text === '' || !text.isWellFormed()) return sink.end(failure)
    const first = this.#won
    const used = usageOf(first.flow, this.#asked)
    const gap = new Cancellation()
    this.#gap = gap
    this.#next
      .ask(text, used.usage.output, gap)
      .then((won) => {
        this.#gap = null
        if (won && gap.reason) {
          won.flow.abort()
          won.permit.release()
        }
        if (gap.reason) return sink.end(gap.reason)
        if (!won) return sink.end(failure)
        this.#before = { ...used, said: first.flow.output(), dropped: first.flow.droppedEvents() }
        this.#won = won
        this.#next.seam(first, won, failure)
        won.flow.pipeTo(behind(sink, said.slice(text.length), used.usage))
      })
      .catch((error) => {
        this.#gap = null
        this.#next.report(error)
        // Who goes on already has not failed, and is not heard to the end.
        this.#won.flow.abort()
        sink.end(this.#won === first ? failure : internalError)
      })
  }
}

/**
 * Into a stream that has begun and in which a text is open. `space`: the white space that had been said and was not sent
 * along; said again it is left out.
 */
const behind = (sink: Sink<readonly StreamStep[]>, space: string, before: Usage): Sink<readonly StreamStep[]> => {
  let left = space
  let open = true
  /** In a block that is no text: thoughts of the second, which go to nobody. */
  let foreign = false
  const passed = (event: ChatEvent): readonly ChatEvent[] => {
    switch (event.type) {
      case 'start':
      case 'citation':
      case 'proof':
        return []
      case 'open': {
        foreign = event.block.type !== 'text'
        if (foreign || open) return []
        open = true
        return [event]
      }
      case 'delta': {
        if (foreign) return []
        let at = 0
        while (at < left.length && at < event.text.length && left[at] === event.text[at]) at++
        // What differs here was never a repetition.
        left = at === event.text.length ? left.slice(at) : ''
        return at === 0 ? [event] : at === event.text.length ? [] : [{ type: 'delta', text: event.text.slice(at) }]
      }
      case 'close': {
        if (foreign || !open) {
          foreign = false
          return []
        }
        open = false
        return [event]
      }
      case 'usage':
        return [{ type: 'usage', usage: sum(before, event.usage) }]
      case 'finish': {
        const shut: readonly ChatEvent[] = open ? [{ type: 'close' }] : []
        open = false
        return [...shut, event]
      }
      case 'failure':
      case 'ping':
        return [event]
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }
  return {
    push: (steps) => sink.push(steps.map(({ events }) => ({ events: events.flatMap(passed) }))),
    end: (failure) => sink.end(failure),
  }
}

/** Neither record is the upstream's own any more. */
const sum = (one: Usage, other: Usage): Usage => {
  const of = (name: 'cacheRead' | 'cacheWrite' | 'reasoning') =>
    one[name] === undefined && other[name] === undefined ? {} : { [name]: (one[name] ?? 0) + (other[name] ?? 0) }
  return {
    input: one.input + other.input,
    output: one.output + other.output,
    ...of('cacheRead'),
    ...of('cacheWrite'),
    ...of('reasoning'),
  }
}
