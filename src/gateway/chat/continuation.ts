/**
 * Resumes an interrupted text answer on another model that supports prefill. The text sent so far becomes an assistant
 * message at the end of the conversation. The client's stream continues; a comment in it reports the new target.
 *
 * Opt-in (`stream.continue`), once a request. Only plain text qualifies: part of a tool call, of structured output or of
 * signed reasoning cannot be resumed by another model. A stop sequence excludes it too, since both parts could share one.
 */

import type { ChatEvent, ChatRequest, Usage } from '../../core/chat.ts'
import { type Failure, fail, rowOf } from '../../core/failure.ts'
import type { StreamStep } from '../../core/protocol.ts'
import type { Settings } from '../../core/settings.ts'
import type { Sink } from '../../core/stage.ts'
import type { Candidate } from '../../core/target.ts'
import { addCounts } from '../../policy/accounts/summed-usage.ts'
import { InputCount, type OutputSample, type TokenUsage, usageOf } from '../accounts/token-usage.ts'
import { Cancellation } from '../call/cancellation.ts'
import type { Routed } from '../routing/router.ts'
import { internalError } from '../upstream/answer-receiver.ts'
import type { AnswerStream } from '../upstream/attempt.ts'
import type { InboundRequest, OutboundRequest } from '../upstream/outbound-request.ts'

/** Whether another model could continue the answer to this request. */
export const isContinuable = ({ request }: InboundRequest, { stream }: Settings): boolean => {
  const { settings, tools, messages, extras } = request
  const { stop, choices, logprobs, topLogprobs, format, effort, thinkingBudget, reasoningSummary, encryptedReasoning } =
    settings
  const isText = !format || format.value.kind === 'text'
  const hasOneChoice = !choices || choices.value === 1
  const hasStop = stop !== undefined && stop.value.length > 0
  const wantsLogprobs = logprobs?.value === true || topLogprobs !== undefined
  const reasons = [effort, thinkingBudget, reasoningSummary, encryptedReasoning].some(
    (setting) => setting !== undefined,
  )
  return (
    stream.continue &&
    request.stream &&
    tools.length === 0 &&
    isText &&
    hasOneChoice &&
    !hasStop &&
    !wantsLogprobs &&
    !reasons &&
    messages.length > 0 &&
    messages.at(-1)?.role !== 'assistant' &&
    messages.every(({ content }) => content.every(({ type }) => type === 'text')) &&
    extras.every(({ essential }) => !essential)
  )
}

/** Whether the model continues a given beginning of its answer, by its vendor's documentation. */
export const supportsPrefill = ({ instance, model }: Candidate): boolean => {
  const prefill = instance.provider.supportsPrefill
  return prefill !== undefined && (prefill.models?.test(model) ?? true)
}

/** The request with the text sent so far. `outputTokens`: tokens of that text. Null: the output limit is used up. */
export const continued = (inbound: InboundRequest, text: string, outputTokens: number): InboundRequest | null => {
  const { request } = inbound
  const limit = request.settings.maxOutputTokens
  const left = limit && limit.value - outputTokens
  if (left !== undefined && left < 1) return null
  const at = request.messages.at(-1)?.at ?? 'messages'
  const messages: ChatRequest['messages'] = [
    ...request.messages,
    { role: 'assistant', at, content: [{ type: 'text', at, text }] },
  ]
  const settings = limit
    ? { ...request.settings, maxOutputTokens: { ...limit, value: left ?? limit.value } }
    : request.settings
  return { ...inbound, reencode: { without: [] }, continues: true, request: { ...request, messages, settings } }
}

/**
 * Whether the upstream interrupted the answer, rather than the client, this process or a policy. An answer above the size
 * limit is not continued, since the next provider would receive all of it as input.
 */
const isInterruption = (failure: Failure): boolean => {
  const { side, excludes } = rowOf(failure)
  return side === 'upstream' && excludes !== 'request' && failure.kind !== 'too_large'
}

type ContinuationHooks = {
  /** Sends the request to another target. Null: none is left, or it failed. */
  readonly route: (
    text: string,
    outputTokens: number,
    cancellation: Cancellation,
  ) => Promise<Routed<OutboundRequest> | null>
  /** Called when the second target takes over. */
  readonly onSwitch: (before: Routed<OutboundRequest>, after: Routed<OutboundRequest>, failure: Failure) => void
  /** Receives an internal error. */
  readonly report: (error: unknown) => void
}

/** The stream of an answer that another target continues if it is interrupted. */
export class ContinuedFlow implements AnswerStream {
  readonly status: number
  /** Only a stream is continued. */
  readonly whole = null
  readonly body = undefined
  readonly #inputCount: InputCount
  readonly #hooks: ContinuationHooks
  readonly #pieces: string[] = []
  #current: Routed<OutboundRequest>
  /** Usage and output of the first part; null: there is only one part. */
  #before: (TokenUsage & { readonly output: OutputSample; readonly dropped: number }) | null = null
  /** A text block is open. */
  #inText = false
  /** The answer consists of text only so far. */
  #isPlainText = true
  /** Cancels the routing between the two parts; null: no routing is in progress. */
  #routing: Cancellation | null = null
  /** The client disconnected, possibly before the first event. */
  #isLeft = false

  constructor(first: Routed<OutboundRequest>, request: ChatRequest, hooks: ContinuationHooks) {
    this.#current = first
    this.#inputCount = new InputCount(request)
    this.#hooks = hooks
    this.status = first.answerStream.status
  }

  /** The target that is answering, or that answered last. */
  get current(): Routed<OutboundRequest> {
    return this.#current
  }

  finished(): boolean {
    return this.#current.answerStream.finished()
  }
  get facts(): AnswerStream['facts'] {
    return this.#current.answerStream.facts
  }
  model(): string | null {
    return this.#current.answerStream.model()
  }
  usage(): Usage | null {
    const now = this.#current.answerStream.usage()
    return now && this.#before ? addCounts(this.#before.usage, now) : now
  }
  output(): OutputSample {
    const now = this.#current.answerStream.output()
    return this.#before
      ? { length: this.#before.output.length + now.length, beginning: this.#before.output.beginning }
      : now
  }
  droppedEvents(): number {
    return (this.#before?.dropped ?? 0) + this.#current.answerStream.droppedEvents()
  }
  /** Tokens of both parts. */
  used(): TokenUsage {
    const now = usageOf(this.#current.answerStream, this.#inputCount)
    return this.#before ? { usage: addCounts(this.#before.usage, now.usage), estimated: true } : now
  }
  resume(): void {
    if (!this.#routing) this.#current.answerStream.resume()
  }
  abort(): void {
    this.clientLeft()
    if (!this.#routing) this.#current.answerStream.abort()
  }
  /** The client disconnected: no further target continues the answer. */
  clientLeft(): void {
    this.#isLeft = true
    this.#routing?.cancel(fail('client_gone', 'The client disconnected before the end.'))
  }
  failWith(failure: Failure): void {
    if (this.#routing) this.#routing.cancel(failure)
    else this.#current.answerStream.failWith(failure)
  }

  pipeTo(sink: Sink<readonly StreamStep[]>): void {
    this.#current.answerStream.pipeTo({
      push: (steps) => {
        for (const { events } of steps) for (const event of events) this.#observe(event)
        return sink.push(steps)
      },
      end: (failure) => {
        const mayContinue = !this.#isLeft && this.#isPlainText && this.#inText
        if (failure && mayContinue && isInterruption(failure)) this.#continue(sink, failure)
        else sink.end(failure)
      },
    })
  }

  #observe(event: ChatEvent): void {
    switch (event.type) {
      case 'open':
        this.#inText = event.block.type === 'text'
        this.#isPlainText &&= this.#inText
        break
      case 'delta':
        this.#pieces.push(event.text)
        this.#isPlainText &&= event.logprobs === undefined
        break
      case 'close':
        this.#inText = false
        break
      case 'citation':
      case 'signature':
        this.#isPlainText = false
    }
  }

  #continue(sink: Sink<readonly StreamStep[]>, failure: Failure): void {
    const sent = this.#pieces.join('')
    // Anthropic rejects trailing white space in an assistant message; elsewhere it changes the next word.
    const text = sent.trimEnd()
    if (text === '' || !text.isWellFormed()) return sink.end(failure)
    const first = this.#current
    const used = usageOf(first.answerStream, this.#inputCount)
    const cancellation = new Cancellation()
    this.#routing = cancellation
    this.#hooks
      .route(text, used.usage.output, cancellation)
      .then((second) => {
        this.#routing = null
        if (second && cancellation.reason) {
          second.answerStream.abort()
          second.permit.release()
        }
        if (cancellation.reason) return sink.end(cancellation.reason)
        if (!second) return sink.end(failure)
        this.#before = { ...used, output: first.answerStream.output(), dropped: first.answerStream.droppedEvents() }
        this.#current = second
        this.#hooks.onSwitch(first, second, failure)
        second.answerStream.pipeTo(new SecondPart(sink, sent.slice(text.length), used.usage))
      })
      .catch((error) => {
        this.#routing = null
        this.#hooks.report(error)
        // The second target has not failed, so its answer is aborted without an outcome for its health.
        this.#current.answerStream.abort()
        sink.end(this.#current === first ? failure : internalError)
      })
  }
}

/** Joins the second part of an answer to a stream in which a text block is open. */
class SecondPart implements Sink<readonly StreamStep[]> {
  readonly #sink: Sink<readonly StreamStep[]>
  readonly #before: Usage
  /** Trailing white space of the first part that the second target did not receive: removed if it repeats it. */
  #space: string
  #textOpen = true
  /** In a non-text block: reasoning of the second model, which the client does not receive. */
  #inOtherBlock = false

  constructor(sink: Sink<readonly StreamStep[]>, space: string, before: Usage) {
    this.#sink = sink
    this.#space = space
    this.#before = before
  }

  push(steps: readonly StreamStep[]): boolean {
    return this.#sink.push(steps.map(({ events }) => ({ events: events.flatMap((event) => this.#joined(event)) })))
  }

  end(failure?: Failure): void {
    this.#sink.end(failure)
  }

  #joined(event: ChatEvent): readonly ChatEvent[] {
    switch (event.type) {
      case 'start':
      case 'citation':
      case 'signature':
        return []
      case 'open':
        this.#inOtherBlock = event.block.type !== 'text'
        if (this.#inOtherBlock || this.#textOpen) return []
        this.#textOpen = true
        return [event]
      case 'delta':
        return this.#inOtherBlock ? [] : this.#withoutRepeatedSpace(event)
      case 'close':
        if (this.#inOtherBlock || !this.#textOpen) {
          this.#inOtherBlock = false
          return []
        }
        this.#textOpen = false
        return [event]
      case 'usage':
        return [{ type: 'usage', usage: addCounts(this.#before, event.usage) }]
      case 'finish': {
        const closed: readonly ChatEvent[] = this.#textOpen ? [{ type: 'close' }] : []
        this.#textOpen = false
        return [...closed, event]
      }
      case 'failure':
      case 'ping':
        return [event]
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  #withoutRepeatedSpace(event: Extract<ChatEvent, { type: 'delta' }>): readonly ChatEvent[] {
    const { text } = event
    const space = this.#space
    let at = 0
    while (at < space.length && at < text.length && space[at] === text[at]) at++
    // After the first difference the text is no longer a repetition.
    this.#space = at === text.length ? space.slice(at) : ''
    if (at === 0) return [event]
    return at === text.length ? [] : [{ type: 'delta', text: text.slice(at) }]
  }
}
