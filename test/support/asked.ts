/** Builders for chat requests and answer contexts, with defaults for everything a test does not name. */
import type { ChatAnswer, ChatRequest, Message, Part } from '../../src/core/chat.ts'
import type { AnswerContext, Loss } from '../../src/core/protocol.ts'

export const asking = (more: Partial<ChatRequest> = {}): ChatRequest => ({
  model: 'm',
  stream: true,
  messages: [],
  tools: [],
  settings: {},
  extras: [],
  ...more,
})

export const answering = (more: Partial<AnswerContext> = {}): AnswerContext => ({
  request: asking(),
  body: {},
  id: (prefix) => `${prefix}_made`,
  created: 1,
  model: 'm',
  ...more,
})

/** An id function that returns a new id on each call. */
export const numbered = (): AnswerContext['id'] => {
  let made = 0
  return (prefix) => `${prefix}_${made++}`
}

// ── Content ──────────────────────────────────────────────────────────────────────────────────────────────────────

export const said = (text: string, at = 'x'): Part => ({ type: 'text', at, text })
export const user = (...content: Part[]): Message => ({ role: 'user', at: 'u', content })
export const model = (...content: Part[]): Message => ({ role: 'assistant', at: 'a', content })
export const call = (id: string, name = 'f', given = '{"a":1}'): Part => ({
  type: 'tool-call',
  at: `call ${id}`,
  id,
  name,
  arguments: given,
})
export const result = (callId: string, text: string, isError = false): Message => ({
  role: 'tool',
  at: `r ${callId}`,
  callId,
  content: [said(text)],
  isError,
})

/** The places of the losses, with a `!` before those that exclude a target. */
export const lossesIn = (losses: readonly Loss[]): string[] =>
  losses.map(({ path, essential }) => (essential ? `!${path}` : path))

/** The parts that a client sends back if it keeps the whole answer. */
export const partsOf = ({ blocks }: ChatAnswer): Part[] =>
  blocks.map((block, index) => {
    const at = `c[${index}]`
    if (block.type === 'tool-call')
      return { type: block.type, at, id: block.id, name: block.name, arguments: block.text }
    if (block.type !== 'reasoning') return { type: 'text', at, text: block.text }
    return { type: block.type, at, text: block.text, ...(block.signature && { signature: block.signature }) }
  })
