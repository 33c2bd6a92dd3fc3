/** Builders for chat requests and answer contexts, with defaults for everything a test does not name. */
import type { ChatAnswer, ChatRequest, Message, Part } from '../../src/core/chat.ts'
import type { AnswerContext, Loss } from '../../src/core/protocol.ts'

export const chatRequest = (more: Partial<ChatRequest> = {}): ChatRequest => ({
  model: 'm',
  stream: true,
  messages: [],
  tools: [],
  settings: {},
  extras: [],
  ...more,
})

export const answerContext = (more: Partial<AnswerContext> = {}): AnswerContext => ({
  request: chatRequest(),
  body: {},
  id: (prefix) => `${prefix}_made`,
  created: 1,
  model: 'm',
  ...more,
})

/** An id function that returns a new id on each call. */
export const sequentialIds = (): AnswerContext['id'] => {
  let made = 0
  return (prefix) => `${prefix}_${made++}`
}

// ── Content ──────────────────────────────────────────────────────────────────────────────────────────────────────

export const textPart = (text: string, at = 'x'): Part => ({ type: 'text', at, text })
export const userMessage = (...content: Part[]): Message => ({ role: 'user', at: 'u', content })
export const assistantMessage = (...content: Part[]): Message => ({ role: 'assistant', at: 'a', content })
export const toolCallPart = (id: string, name = 'f', given = '{"a":1}'): Part => ({
  type: 'tool-call',
  at: `call ${id}`,
  id,
  name,
  arguments: given,
})
export const toolMessage = (callId: string, text: string, isError = false): Message => ({
  role: 'tool',
  at: `r ${callId}`,
  callId,
  content: [textPart(text)],
  isError,
})

/** The places of the losses, with a `!` before those that exclude a target. */
export const lossPaths = (losses: readonly Loss[]): string[] =>
  losses.map(({ path, essential }) => (essential ? `!${path}` : path))

/** The parts that a client sends back if it keeps the whole answer. */
export const contentOf = ({ blocks }: ChatAnswer): Part[] =>
  blocks.map((block, index) => {
    const at = `c[${index}]`
    if (block.type === 'tool-call')
      return { type: block.type, at, id: block.id, name: block.name, arguments: block.text }
    if (block.type !== 'reasoning') return { type: 'text', at, text: block.text }
    return { type: block.type, at, text: block.text, ...(block.signature && { signature: block.signature }) }
  })
