import type { JsonObject } from '../../core/json.ts'

/** The last event of a stream, which receives the cost as a member. */
const LAST = /^data: \{.*"type":\s*"response\.(?:completed|incomplete)".*\}$/m

/** Writes the cost as a member of the last event. */
export const statesCost = (piece: string, cost: () => JsonObject | null): string | null => {
  const last = LAST.exec(piece)
  if (!last) return null
  const stated = cost()
  if (!stated) return piece
  const end = last.index + last[0].length - 1
  return `${piece.slice(0, end)},"headgate":${JSON.stringify(stated)}${piece.slice(end)}`
}
