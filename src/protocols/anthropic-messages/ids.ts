/**
 * Replaces ids and names that this format rejects. A replacement depends on the original only, so a call and its result get
 * the same one in every turn, without state.
 */
import { digest } from '../shared/call-ids.ts'
import { validToolName } from '../shared/tool-names.ts'

const ID = /^[a-zA-Z0-9_-]+$/

/** A valid call id: letters, digits, `_` and `-`, at least one. */
export const toolUseId = (id: string): string => (ID.test(id) ? id : `call_${digest(id)}`)

/** A valid tool name: letters, digits, `_` and `-`, at most 128. */
export const toolName = validToolName({
  valid: /^[a-zA-Z0-9_-]{1,128}$/,
  replaced: /[^a-zA-Z0-9_-]/g,
  maxLength: 128,
})
