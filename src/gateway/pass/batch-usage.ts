/** What a batch has used, by model, from its results. Each answer is priced by itself, at the prices of batches. */
import type { Usage } from '../../core/chat.ts'
import { textOf } from '../../core/encoded-text.ts'
import { isObject, type JsonObject, readJson, text } from '../../core/json.ts'
import type { UpstreamProtocol } from '../../core/protocol.ts'
import type { Instance } from '../../core/provider.ts'
import { addAnswer } from '../../policy/accounts/summed-usage.ts'
import { answerInResult } from '../../policy/pass/batches.ts'
import { upstreamProtocols } from '../../protocols/index.ts'
import { decodeUsage } from '../../protocols/shared/usage-members.ts'
import type { ModelCallDeps } from '../routing/planner.ts'

export class BatchUsage {
  /** By model. */
  readonly models = new Map<string, Usage>()
  /** An answer is no JSON, or states no tokens or no model: what it costs is not known. */
  isUnknown = false
  readonly #gateway: Pick<ModelCallDeps, 'world' | 'prices'>
  readonly #instance: Instance
  /** The model of answers that name none; null: it is not known. */
  readonly #model: string | null

  constructor(gateway: Pick<ModelCallDeps, 'world' | 'prices'>, instance: Instance, model: string | null) {
    this.#gateway = gateway
    this.#instance = instance
    this.#model = model
  }

  /** Adds a line of a file of results. */
  addLine(line: Uint8Array): void {
    const result = textOf(line).trim()
    if (result === '') return
    const read = readJson(result)
    if (isObject(read)) this.addResult(read)
    else this.isUnknown = true
  }

  addResult(result: JsonObject): void {
    const answer = answerInResult(result)
    if (!answer) return
    const format = formatOf(answer)
    if (!format) return this.#add(decodeUsage(answer.usage) ?? null, text(answer.model) ?? null)
    let usage: Usage | null = null
    let model: string | null = null
    for (const event of format.decodeAnswer(answer))
      if (event.type === 'usage') usage = event.usage
      else if (event.type === 'start') model = event.model ?? model
    this.#add(usage, model)
  }

  /** Adds the sum that the batch states, where its results cannot be read. */
  addTotal(stated: JsonObject): void {
    const usage = decodeUsage(stated) ?? null
    // OpenAI states zeros of a batch that has failed before its first request.
    if (!usage || usage.input + usage.output > 0) this.#add(usage, null)
  }

  #add(usage: Usage | null, answering: string | null): void {
    const model = answering ?? this.#model
    if (!usage || usage.unknown || model === null) {
      this.isUnknown = true
      return
    }
    const { raw: _, ...counted } = usage
    const { world, prices } = this.#gateway
    const priced = { ...counted, serviceTier: 'batch' }
    const cost = prices().costOfAttempt({
      instance: this.#instance,
      model,
      answering: null,
      at: world.date(),
      usage: priced,
      asked: {},
    })
    this.models.set(model, addAnswer(this.models.get(model) ?? null, priced, cost))
  }
}

/** The format of an answer; null: only its usage is read, as that of embeddings. */
const formatOf = (answer: JsonObject): Pick<UpstreamProtocol, 'decodeAnswer'> | null => {
  if (answer.object === 'chat.completion') return upstreamProtocols['openai-chat']
  if (answer.object === 'response') return upstreamProtocols['openai-responses']
  if (answer.type === 'message') return upstreamProtocols['anthropic-messages']
  return isObject(answer.usageMetadata) ? upstreamProtocols.gemini : null
}
