/**
 * Replaces ids and names that this format rejects. A replacement depends on the original only, so a call and its result get
 * the same one in every turn, without state.
 */
import { digest } from '../shared/call-ids.ts'

const ID = /^[a-zA-Z0-9_.:-]{1,64}$/
const NAME = /^[a-zA-Z0-9_-]{1,64}$/
const MAX_NAME_LENGTH = 64

/** A valid call id: letters, digits and `_.:-`, at most 64. */
export const toolUseId = (id: string): string => (ID.test(id) ? id : `call_${digest(id)}`)

/** A valid tool name: letters, digits, `_` and `-`, at most 64. */
export const toolName = (name: string): string => {
  if (NAME.test(name)) return name
  const prefix = name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, MAX_NAME_LENGTH - 41)
  return `${prefix}_${digest(name)}`
}
