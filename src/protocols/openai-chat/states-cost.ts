import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'

/** The end of a stream, before which an event with the cost is written. */
const DONE = 'data: [DONE]'

/** Writes the cost into an event of its own, before `[DONE]`. */
export const statesCost = (
  piece: string,
  cost: () => JsonObject | null,
  { id, created, model }: AnswerContext,
): string | null => {
  const done = piece.startsWith(DONE) ? 0 : piece.indexOf(`\n${DONE}`) + 1
  if (done === 0 && !piece.startsWith(DONE)) return null
  const headgate = cost()
  if (!headgate) return piece
  const members = { id: id('chatcmpl'), object: 'chat.completion.chunk', created, model, choices: [], headgate }
  return `${piece.slice(0, done)}data: ${JSON.stringify(members)}\n\n${piece.slice(done)}`
}
