/** The IDs of sessions. A name belongs to its principal: two keys never share a session (BerriAI/litellm#43190). */
import type { Client } from '../../core/accounts.ts'
import { BoundedMap } from '../../core/bounded-map.ts'
import { type CallSession, SESSION_PREFIX } from '../../core/session.ts'

/** Makes 12 lower-case letters of a text, equal in all processes and after each restart. */
export type SessionLetters = (text: string) => string

type OwnedSession = { readonly owner: string; readonly session: CallSession }

export class SessionIds {
  readonly #letters: SessionLetters
  /** By name. A session has many requests. */
  readonly #known = new BoundedMap<OwnedSession>()

  constructor(letters: SessionLetters) {
    this.#letters = letters
  }

  /** The session that a client names. */
  named({ owner }: Pick<Client, 'owner'>, name: string): CallSession {
    const known = this.#known.get(name)
    if (known?.owner === owner) return known.session
    const session = { id: `${SESSION_PREFIX.named}${this.#letters(`session ${owner} ${name}`)}`, name }
    this.#known.set(name, { owner, session })
    return session
  }

  /** The session of a conversation that begins with this text. */
  guessed({ owner }: Pick<Client, 'owner'>, opening: string): CallSession {
    return { id: `${SESSION_PREFIX.guessed}${this.#letters(`guessed ${owner} ${opening}`)}`, name: null }
  }
}
