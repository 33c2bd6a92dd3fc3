import type { ChatEvent, Usage } from '../../core/chat.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { encodeUsage } from '../shared/openai-finish-and-usage.ts'
import { openaiTier } from '../shared/service-tiers.ts'

/** Writes the members that all chunks of a choice share, once, around the JSON text of each delta. */
export class ChunkFrame {
  readonly #context: AnswerContext
  readonly #wantsUsage: boolean
  readonly #choiceStart: string
  readonly #chunkEnd: string
  /** Empty before the first chunk. */
  #chunkStart = ''
  #id: string | undefined
  #model: string | undefined
  #created: number | undefined

  constructor(context: AnswerContext, index: number) {
    this.#context = context
    this.#wantsUsage = context.request.settings.streamUsage?.value === true
    this.#choiceStart = `"choices":[{"index":${index},"delta":`
    this.#chunkEnd = this.#wantsUsage ? ',"usage":null}\n\n' : '}\n\n'
  }

  get begun(): boolean {
    return this.#chunkStart !== ''
  }

  /** Takes what the answer states of itself. */
  start(event: ChatEvent & { readonly type: 'start' }): void {
    this.#id ??= event.id
    this.#model ??= event.model
    this.#created ??= event.created
  }

  /** Fixes the shared members. */
  begin(): void {
    const shared = JSON.stringify({
      id: this.#id ?? this.#context.id('chatcmpl'),
      object: 'chat.completion.chunk',
      created: this.#created ?? this.#context.created,
      model: this.#model ?? this.#context.model,
    })
    this.#chunkStart = `data: ${shared.slice(0, -1)},`
  }

  /** A chunk; `delta` and `logprobs` are JSON text. */
  chunk(delta: string, reason: string | null = null, logprobs = 'null'): string {
    return `${this.#chunkStart}${this.#choiceStart}${delta},"logprobs":${logprobs},"finish_reason":${
      reason === null ? 'null' : `"${reason}"`
    }}]${this.#chunkEnd}`
  }

  /** The chunk after the last one, if the client requested usage and it is known; empty otherwise. */
  usageChunk(usage: Usage | undefined): string {
    if (!this.#wantsUsage || !usage) return ''
    const tier = openaiTier(usage.serviceTier)
    const members = `"choices":[],${tier === undefined ? '' : `"service_tier":"${tier}",`}"usage":`
    return `${this.#chunkStart}${members}${JSON.stringify(encodeUsage(usage))}}\n\n`
  }
}
