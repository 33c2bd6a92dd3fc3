import type { ChatEvent, Finish } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { truncated } from '../errors/answer-failures.ts'
import { REFUSAL_TEXT } from '../shared/refusal-text.ts'
import { failureEvents } from './errors.ts'
import { ItemWriter } from './item-writer.ts'
import type { WireEvent } from './output-items.ts'
import { PartWriter } from './part-writer.ts'
import { ResponseEnvelope } from './response-envelope.ts'

/** How the answer ended: completed, or incomplete for this reason. */
type ResponseEnding = 'completed' | { readonly reason: string }

/** Turns the events of an answer into the events of a responses stream, without sequence numbers. */
export class ResponsesAnswerWriter {
  readonly #context: AnswerContext
  readonly #items: ItemWriter
  readonly #parts: PartWriter
  readonly #envelope: ResponseEnvelope
  #over = false
  /** Set by the finish event. */
  #ending: ResponseEnding | undefined

  constructor(context: AnswerContext) {
    this.#context = context
    this.#items = new ItemWriter(context)
    this.#parts = new PartWriter(context, this.#items)
    this.#envelope = new ResponseEnvelope(context, this.#items.output)
  }

  get begun(): boolean {
    return this.#envelope.begun
  }

  get over(): boolean {
    return this.#over
  }

  /** The response in its current state. */
  response(): JsonObject {
    return this.#envelope.response()
  }

  /** Begins the response unless it has begun. From then on its id is fixed. */
  begin(): WireEvent[] {
    return this.#envelope.begin()
  }

  write(event: ChatEvent): WireEvent[] {
    if (this.#over) return []
    switch (event.type) {
      case 'start':
        this.#envelope.start(event)
        return this.begin()
      case 'open':
        return [...this.begin(), ...this.#parts.open(event.block)]
      case 'delta':
        return [...this.begin(), ...this.#parts.write(event.text, event.logprobs)]
      case 'citation':
        return [...this.begin(), ...this.#parts.cite(event.citation)]
      case 'signature':
        this.#parts.sign(event.signature)
        return []
      case 'close':
        return this.#parts.close()
      case 'usage':
        this.#envelope.usage = event.usage
        return []
      case 'finish':
        return [...this.begin(), ...this.#finish(event.finish)]
      case 'failure':
        return [...this.begin(), ...this.#fail(event.failure)]
      case 'ping':
        return []
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  /**
   * Adds text to the open block without making an event. True if the event would differ from the last one in its delta
   * alone, so that the caller can repeat that event; false if the caller has to use `write`.
   */
  appendRepeated(delta: string): boolean {
    return !this.#over && this.#parts.appendRepeated(delta)
  }

  /** Ends the answer. An answer without a finish ends as a failure. */
  end(): WireEvent[] {
    if (this.#over) return []
    if (this.#ending) return this.#complete(this.#ending)
    return [...this.begin(), ...this.#fail(truncated())]
  }

  #finish(finish: Finish): WireEvent[] {
    const reason = incompleteReason(finish)
    if (reason === undefined)
      return this.#fail(fail('malformed', `The model ended its answer with an error (${finish.raw ?? finish.kind}).`))
    // This format marks a refusal by its text only. Add a text if the model wrote none.
    const refusal =
      finish.kind === 'refusal' && !this.#parts.refused
        ? [...this.#parts.open({ type: 'refusal' }), ...this.#parts.write(REFUSAL_TEXT, undefined)]
        : []
    this.#ending = reason === null ? 'completed' : { reason }
    return [...refusal, ...this.#parts.close(), ...this.#items.end(reason === null ? 'completed' : 'incomplete')]
  }

  /** The last event. It is written at the end of the stream, because chat completions send usage after the finish. */
  #complete(ending: ResponseEnding): WireEvent[] {
    this.#over = true
    const members = { completed_at: this.#envelope.completedAt }
    return ending === 'completed'
      ? [{ type: 'response.completed', response: this.#envelope.response('completed', members) }]
      : [
          {
            type: 'response.incomplete',
            response: this.#envelope.response('incomplete', { ...members, incomplete_details: ending }),
          },
        ]
  }

  #fail(failure: Failure): WireEvent[] {
    this.#over = true
    this.#parts.close()
    const unfinished = this.#items.abandon()
    const response = this.#envelope.response('failed', { output: [...this.#items.output, ...unfinished] })
    return failureEvents(failure, response, this.#context, this.#parts.hasContent)
  }
}

/** The `incomplete_details.reason`; null for a complete answer, undefined for a finish that makes the answer unusable. */
const incompleteReason = ({ kind }: Finish): string | null | undefined => {
  switch (kind) {
    case 'stop':
    case 'tool-calls':
    // In this format a refusal is a complete answer.
    case 'refusal':
      return null
    case 'content-filter':
      return 'content_filter'
    case 'length':
    // A paused answer continues when the client sends it back, as after any limit.
    case 'pause':
      return 'max_output_tokens'
    case 'malformed':
    case 'error':
      return undefined
    default:
      throw new Error(`unknown finish ${JSON.stringify(kind satisfies never)}`)
  }
}
