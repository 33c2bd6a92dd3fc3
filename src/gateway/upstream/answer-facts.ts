/** What an answer has stated so far. */
import type { ChatEvent, Usage } from '../../core/chat.ts'
import { OutputSampler } from '../accounts/token-usage.ts'

export type FinishEvent = ChatEvent & { readonly type: 'finish' }

/** Finish reasons, in lower case, of models that have said all. Formats count every reason that they do not know as one. */
const NORMAL_ENDS: ReadonlySet<string> = new Set(['stop', 'stop_sequence', 'end_turn', 'eos', 'complete', 'completed'])

/** One object with the sample of its output, because thousands of streams may be open at once. */
export class AnswerFacts extends OutputSampler {
  /** Of the response; 0 until its header block has arrived. */
  status = 0
  /** The wire format; null: none of those of chat. */
  readonly format: string | null
  /** The upstream's ID of the answer. */
  id: string | null = null
  /** The model that answers, as the upstream names it. */
  model: string | null = null
  /** When the model ends, in ms since 1970; null: not stated. */
  retires: number | null = null
  /** The last token count. */
  usage: Usage | null = null
  finish: FinishEvent | null = null
  /** Malformed events within plain text. If there are any, the terminal event alone does not make the answer complete. */
  dropped = 0

  constructor(format: string | null) {
    super()
    this.format = format
  }

  /** Why the answer ended, as the upstream names it; null: it has not. */
  get finishReason(): string | null {
    return this.finish && (this.finish.finish.raw ?? this.finish.finish.kind)
  }

  start({ id, model, retires }: ChatEvent & { readonly type: 'start' }): void {
    this.id = id ?? this.id
    this.model = model ?? this.model
    this.retires = retires ?? this.retires
  }

  /** If the answer has no content: it ended normally without output, or for a reason that is not known. */
  get isEmpty(): boolean {
    const finish = this.finish?.finish
    if (finish?.kind !== 'stop') return false
    // Anthropic's streams count one token before the first.
    return (this.usage?.output ?? 0) <= 1 || !NORMAL_ENDS.has(finish.raw?.toLowerCase() ?? 'stop')
  }
}
