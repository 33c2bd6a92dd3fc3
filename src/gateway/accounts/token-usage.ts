/** Token usage of a call: the upstream's count, or an estimate where there is none. */
import type { ChatRequest, Usage } from '../../core/chat.ts'
import { completed, isPlausible } from '../../policy/accounts/charge.ts'
import { estimateText, estimateTokens } from '../../policy/routing/estimate-tokens.ts'

/** Tokens of an answer. `estimated`: the upstream sent no final count. */
export type TokenUsage = { readonly usage: Usage; readonly estimated?: true }

/** Estimates a request's input tokens on first use, because most answers include a count. */
export class InputCount {
  #request: ChatRequest | null
  #tokens = 0

  constructor(request: ChatRequest) {
    this.#request = request
  }

  /** The estimated number of input tokens. */
  get tokens(): number {
    this.count()
    return this.#tokens
  }

  /** Computes the estimate and releases the request. Called before a long stream, to save memory. */
  count(): void {
    if (!this.#request) return
    this.#tokens = estimateTokens(this.#request)
    this.#request = null
  }
}

/** The token facts of an answer in progress. */
export type TokenSource = {
  /** The upstream's own count so far; null: it has sent none. */
  usage(): Usage | null
  finished(): boolean
  output(): OutputSample
  /** The model that answers, as the upstream names it; null: it has not. */
  model(): string | null
}

/** The upstream's count for a finished answer. Otherwise, and where the count cannot be right, an estimate, marked as such. */
export const usageOf = (source: TokenSource, input: { readonly tokens: number }): TokenUsage => {
  const counted = source.usage()
  if (counted && source.finished()) {
    if (isPlausible(counted, source.output().length)) return { usage: counted }
    const { usage, source: known } = completed(counted, {
      estimatedInput: () => input.tokens,
      estimatedOutput: () => outputTokens(source.output()),
      textLength: () => source.output().length,
    })
    return known === 'exact' ? { usage } : { usage, estimated: true }
  }
  const output = Math.max(counted?.output ?? 0, outputTokens(source.output()))
  // A cost in the middle of an answer is that of its beginning.
  const { reportedCost: _, ...soFar } = counted ?? { input: input.tokens }
  return { usage: { ...soFar, output }, estimated: true }
}

/** A sample of an answer's output: its total length in UTF-16 code units, and its beginning. */
export type OutputSample = { readonly length: number; readonly beginning: string }

/** Characters of output kept to estimate its tokens. */
const SAMPLE_LENGTH = 2_048

/** Collects an output sample from the texts of a stream. */
export class OutputSampler {
  #length = 0
  #beginning = ''

  /** Adds the next text of the output. */
  add(text: string): void {
    this.#length += text.length
    if (this.#beginning.length < SAMPLE_LENGTH) this.#beginning += text
  }

  /** The sample of the texts so far. */
  get sample(): OutputSample {
    return { length: this.#length, beginning: this.#beginning }
  }
}

/** Estimates the tokens of an output: extrapolates the token density of the beginning. */
export const outputTokens = ({ length, beginning }: OutputSample): number =>
  beginning === '' ? 0 : Math.ceil((estimateText(beginning) * length) / beginning.length)
