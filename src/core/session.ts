/** Sessions: the requests of one conversation of an agent, with those of its sub-agents. */

/** `id`: `ses_` and 12 letters, or `gss_` if it is guessed. `name`: as the client names it; null: it is guessed. */
export type CallSession = { readonly id: string; readonly name: string | null }

/** Prefixes of the IDs of sessions that requests name, and of those that are guessed from the beginning of the conversation. */
export const SESSION_PREFIX = { named: 'ses_', guessed: 'gss_' } as const

/** The ID of a session. */
export const SESSION_ID = /^(?:ses|gss)_[a-z]{12}$/

export const isGuessed = (session: string): boolean => session.startsWith(SESSION_PREFIX.guessed)
