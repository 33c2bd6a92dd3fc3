import type { ChatRequest, Usage } from '../../core/chat.ts'
import { estimateText, estimateTokens } from '../../policy/routing/estimate-tokens.ts'

/** Tokens of an answer. `estimated`: nobody counted them, or not to the end. */
export type TokenUsage = { readonly usage: Usage; readonly estimated?: true }

/** A question as far as it is counted: estimating it is not free, and hardly any answer comes without a count. */
export class InputCount {
  #request: ChatRequest | null
  #tokens = 0

  constructor(request: ChatRequest) {
    this.#request = request
  }

  /** About how many it is. */
  get tokens(): number {
    this.count()
    return this.#tokens
  }

  /** Counts it now, and keeps nothing else of it: for an answer that takes its time. */
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
}

/** The upstream's count for a finished answer. Otherwise an estimate, marked as such; clients never receive estimates. */
export const usageOf = (flow: TokenSource, asked: { readonly tokens: number }): TokenUsage => {
  const told = flow.usage()
  if (told && flow.finished()) return { usage: told }
  const output = Math.max(told?.output ?? 0, tokensOf(flow.output()))
  return { usage: { ...(told ?? { input: asked.tokens }), output }, estimated: true }
}

/** What was said of an answer: its length in UTF-16 code units, and its beginning. */
export type OutputSample = { readonly length: number; readonly beginning: string }

/** The rest is taken to be written like the beginning. */
const tokensOf = ({ length, beginning }: OutputSample): number =>
  beginning === '' ? 0 : Math.ceil((estimateText(beginning) * length) / beginning.length)
