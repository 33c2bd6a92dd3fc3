/** The session that a request names in its headers or its body. Measured with Claude Code 2.1.328, Codex 0.169.0, opencode 1.18.33. */

import { claudeUser } from '../../core/claude-user.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { type JsonObject, object, text } from '../../core/json.ts'

/** `value`: 1 to 128 visible ASCII characters. `agent`: the agent within the session; null: the main one. */
export type NamedSession = { readonly value: string; readonly agent: string | null }

/** A header that names the session, that of its agent, and one that names the session of which this one is a part. */
type SessionHeader = { readonly session: string; readonly agent?: string; readonly parent?: string }

/** In the order in which they are read: the first valid one is used. */
const HEADERS: readonly SessionHeader[] = [
  { session: 'x-headgate-session', agent: 'x-headgate-agent' },
  { session: 'x-claude-code-session-id', agent: 'x-claude-code-agent-id' },
  // Codex: sub-agents have the session of their root and a thread of their own. Older versions write an underscore.
  { session: 'session-id', agent: 'thread-id' },
  { session: 'session_id', agent: 'thread-id' },
  // opencode and Kilo: a sub-agent is a session with a parent.
  { session: 'x-session-id', parent: 'x-parent-session-id' },
  { session: 'x-session-affinity', parent: 'x-parent-session-id' },
  { session: 'x-opencode-session' },
  { session: 'x-litellm-session-id' },
  { session: 'helicone-session-id' },
]

/** The names of all these headers. */
export const SESSION_HEADERS: readonly string[] = [...new Set(HEADERS.flatMap((names) => Object.values(names)))]

const VALUE = /^[\x21-\x7e]{1,128}$/
const valid = (value: string | undefined): value is string => value !== undefined && VALUE.test(value)

/** The session that a request names; null: none. `members`: its body. */
export const namedSession = (headers: HeaderLookup, members: JsonObject): NamedSession | null =>
  inHeaders(headers) ?? inBody(members)

const inHeaders = (headers: HeaderLookup): NamedSession | null => {
  for (const { session, agent, parent } of HEADERS) {
    const value = headers(session)
    if (!valid(value)) continue
    const root = parent === undefined ? undefined : headers(parent)
    if (valid(root) && root !== value) return { value: root, agent: value }
    const part = agent === undefined ? undefined : headers(agent)
    return { value, agent: valid(part) && part !== value ? part : null }
  }
  return null
}

const inBody = ({ metadata, client_metadata, session_id, conversation }: JsonObject): NamedSession | null => {
  if (metadata === undefined && client_metadata === undefined && session_id === undefined && conversation === undefined)
    return null
  const own = object(client_metadata)
  const value = [
    ofUser(text(object(metadata)?.user_id)),
    text(own?.session_id),
    text(object(metadata)?.session_id),
    text(session_id),
    text(conversation) ?? text(object(conversation)?.id),
  ].find(valid)
  if (value === undefined) return null
  const thread = text(own?.thread_id)
  return { value, agent: valid(thread) && thread !== value ? thread : null }
}

/** The session in Claude Code's `metadata.user_id`. Proxies drop its header (yvgude/lean-ctx#1730). */
const ofUser = (user: string | undefined): string | undefined =>
  user === undefined ? undefined : claudeUser(user)?.session
