import type { ChatRequest, Usage } from '../../core/chat.ts'
import { estimateText, estimateTokens } from '../../policy/routing/estimate-tokens.ts'
import type { Flow } from '../upstream/attempt.ts'

/** Tokens of an answer. `estimated`: nobody counted them, or not to the end. */
export type Used = { readonly usage: Usage; readonly estimated?: true }

/** A question as far as it is counted: estimating it is not free, and hardly any answer comes without a count. */
export class InputCount {
  #request: ChatRequest | null
  #tokens = 0

  constructor(request: ChatRequest) {
    this.#request = request
  }

  /** About how many it is. */
  get tokens(): number {
    this.letGo()
    return this.#tokens
  }

  /** Counts it now, and keeps nothing else of it: for an answer that takes its time. */
  letGo(): void {
    if (!this.#request) return
    this.#tokens = estimateTokens(this.#request)
    this.#request = null
  }
}

/** As its maker counted it; otherwise about what was asked and said, which is never told the client as if it were counted. */
export const usedBy = (flow: Pick<Flow, 'usage' | 'finished' | 'said'>, asked: { readonly tokens: number }): Used => {
  const told = flow.usage()
  if (told && flow.finished()) return { usage: told }
  const output = Math.max(told?.output ?? 0, tokensOf(flow.said()))
  return { usage: { ...(told ?? { input: asked.tokens }), output }, estimated: true }
}

/** What was said of an answer: its length in UTF-16 code units, and its beginning. */
export type Said = { readonly length: number; readonly beginning: string }

/** The rest is taken to be written like the beginning. */
const tokensOf = ({ length, beginning }: Said): number =>
  beginning === '' ? 0 : Math.ceil((estimateText(beginning) * length) / beginning.length)
