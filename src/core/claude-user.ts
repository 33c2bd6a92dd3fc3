/** The person and the session that Claude Code writes into `metadata.user_id`. Measured with 2.1.328 and, of `EARLIER`, with 1.0. */
import { parseObject, text } from './json.ts'

/** `user`: the account, or without one the device; undefined: neither is named. */
export type ClaudeUser = { readonly user: string | undefined; readonly session: string }

/** Earlier versions write `user_…_account_…_session_…`. */
const EARLIER = /^(user_[0-9a-f]*_account_[0-9a-f-]*)_session_([0-9a-f-]{36})$/
const MAX = 1_024

/** What a `metadata.user_id` contains; undefined: it is the name of an end user, and nothing else. */
export const claudeUser = (id: string): ClaudeUser | undefined => {
  if (!id.startsWith('{')) {
    const [, user, session] = EARLIER.exec(id) ?? []
    return session === undefined ? undefined : { user, session }
  }
  const members = id.length > MAX ? undefined : parseObject(id)
  const session = text(members?.session_id)
  if (session === undefined) return undefined
  return { user: text(members?.account_uuid) || text(members?.device_id) || undefined, session }
}
