import type { Extra } from '../../core/chat.ts'
import type { Json } from '../../core/json.ts'
import type { Losses } from './losses.ts'

/** A request body under construction, with the client's path of each member and the losses. */
export type RequestDraft = {
  readonly losses: Losses
  readonly body: { readonly [member: string]: Json }
  /** The client's path of each member. A member of an object has its own entry: `from['thinking.display']`. */
  readonly from: { readonly [member: string]: string }
  /** Sets a member of the body. `at`: the client's path, if any. */
  put(member: string, value: Json, at: string | undefined): void
  /** Sets a member of an object in the body. */
  putIn(parent: string, member: string, value: Json, at: string | undefined): void
  /** Sets the client's path of a member without changing the body. `path`: its key in `from`. */
  setFrom(path: string, at: string): void
}

/** An empty draft. */
export const newRequestDraft = (losses: Losses): RequestDraft => {
  const body: { [member: string]: Json } = {}
  const from: { [member: string]: string } = {}
  const objects: { [parent: string]: { [member: string]: Json } } = {}
  return {
    losses,
    body,
    from,
    put(member, value, at) {
      body[member] = value
      if (at !== undefined) from[member] = at
    },
    putIn(parent, member, value, at) {
      const members = objects[parent] ?? {}
      members[member] = value
      objects[parent] = members
      body[parent] = members
      if (at !== undefined) from[`${parent}.${member}`] = at
    },
    setFrom(path, at) {
      from[path] = at
    },
  }
}

/** Checks of a format's own members, which clients of other formats may send. */
export type MemberChecks = { readonly [name: string]: (value: Json) => boolean }

/** Encodes an extra that is a valid member of the format; any other is a loss. */
export const encodeOwnMember = (
  extra: Extra,
  checks: MemberChecks,
  { put, losses }: Pick<RequestDraft, 'put' | 'losses'>,
): void => {
  const { name, value, at } = extra
  if (Object.hasOwn(checks, name) && checks[name]?.(value)) put(name, value, at)
  else losses.loseExtra(extra)
}
