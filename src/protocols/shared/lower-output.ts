/** Lowers output limits in bodies that pass through. */
import { type JsonObject, number } from '../../core/json.ts'
import type { LoweredBody } from '../../core/protocol.ts'

/** Lowers these members to at most `limit`. A body without an output limit receives the first of them. */
export const lowerMembers =
  (...members: readonly string[]) =>
  (body: JsonObject, limit: number): LoweredBody => {
    const stated = members.filter((member) => number(body[member]) !== undefined)
    const paths = stated.length === 0 ? members.slice(0, 1) : stated.filter((member) => Number(body[member]) > limit)
    return { body: { ...body, ...Object.fromEntries(paths.map((path) => [path, limit])) }, paths }
  }
