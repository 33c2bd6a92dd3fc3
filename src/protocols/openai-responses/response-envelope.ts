import type { ChatEvent, Usage } from '../../core/chat.ts'
import { type JsonObject, number, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { openaiTier } from '../shared/service-tiers.ts'
import { echo } from './echo-settings.ts'
import { encodeUsage, type WireEvent } from './output-items.ts'

/** The response around its items: id, model, settings and usage. */
export class ResponseEnvelope {
  readonly #context: AnswerContext
  readonly #settings: JsonObject
  /** The items that are complete. */
  readonly #output: readonly JsonObject[]
  #id: string
  #created: number
  #model: string
  #begun = false
  usage: Usage | undefined

  constructor(context: AnswerContext, output: readonly JsonObject[]) {
    this.#context = context
    this.#settings = echo(context)
    this.#output = output
    this.#begun = context.begun !== undefined
    this.#id = text(context.begun?.response.id) ?? context.storage?.id ?? ''
    this.#created = number(context.begun?.response.created_at) ?? context.created
    this.#model = context.model
  }

  get begun(): boolean {
    return this.#begun
  }

  /** In seconds. The core has no clock: the creation time is the closest known value of the end. */
  get completedAt(): number {
    return Math.max(this.#created, this.#context.created)
  }

  /** The response in its current state. */
  response(status = 'in_progress', members: JsonObject = {}): JsonObject {
    const tier = openaiTier(this.usage?.serviceTier)
    return {
      id: this.#id,
      object: 'response',
      created_at: this.#created,
      status,
      completed_at: null,
      error: null,
      incomplete_details: null,
      model: this.#model,
      ...this.#settings,
      output: [...this.#output],
      usage: this.usage ? encodeUsage(this.usage) : null,
      ...(tier !== undefined && { service_tier: tier }),
      ...members,
    }
  }

  /** Takes what the answer states of itself. */
  start(event: ChatEvent & { readonly type: 'start' }): void {
    if (!this.#begun) {
      if (!this.#context.storage && event.id?.startsWith('resp_')) this.#id = event.id
      this.#created = event.created ?? this.#created
    }
    // A response that a keep-alive has begun could not name it.
    if (!this.#begun || this.#context.begun) this.#model = event.model ?? this.#model
  }

  /** Begins the response unless it has begun. From then on its id is fixed. */
  begin(): WireEvent[] {
    if (this.#begun) return []
    this.#begun = true
    this.#id = this.#id || this.#context.id('resp')
    return [
      { type: 'response.created', response: this.response() },
      { type: 'response.in_progress', response: this.response() },
    ]
  }
}
