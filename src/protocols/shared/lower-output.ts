/** Lowers output limits in bodies that pass through. */
import { type JsonObject, number } from '../../core/json.ts'
import type { LoweredBody } from '../../core/protocol.ts'

/** Lowers these members to at most `limit`. */
export const lowerMembers =
  (...members: readonly string[]) =>
  (body: JsonObject, limit: number): LoweredBody => {
    const paths = members.filter((member) => (number(body[member]) ?? 0) > limit)
    return { body: { ...body, ...Object.fromEntries(paths.map((path) => [path, limit])) }, paths }
  }
