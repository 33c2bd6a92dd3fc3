/** Admin tokens of `control.db`, for authentication. */
import { isWellFormedKey, keyKindOf } from '../../policy/accounts/client-key.ts'
import { pepperedDigest, plainDigest } from '../../records/entities/secret-digest.ts'
import type { AdminToken } from '../../records/store/record-operations.ts'
import { type AdminActor, isRole } from './actor.ts'

export type AdminTokensOptions = {
  /** The tokens at present. A change is another array. */
  readonly tokens: () => readonly AdminToken[]
  readonly pepper: () => string | undefined
  /** ms since 1970. */
  readonly now: () => number
}

export class AdminTokens {
  readonly #options: AdminTokensOptions
  #known: { readonly tokens: readonly AdminToken[]; readonly byDigest: ReadonlyMap<string, AdminToken> } | null = null

  constructor(options: AdminTokensOptions) {
    this.#options = options
  }

  /** The actor of a presented token; undefined: unknown, revoked or expired. */
  actorOf(presented: string): AdminActor | undefined {
    // A mistyped token is found by its checksum.
    if (keyKindOf(presented) !== 'admin' || !isWellFormedKey(presented)) return undefined
    const { byDigest } = this.#current()
    const pepper = this.#options.pepper()
    const token =
      byDigest.get(plainDigest(presented)) ??
      (pepper === undefined ? undefined : byDigest.get(pepperedDigest(presented, pepper)))
    return token && this.#isValid(token) ? actorOf(token) : undefined
  }

  /** The actor with its current roles; undefined: its token was revoked or has expired. */
  current(actor: AdminActor): AdminActor | undefined {
    if (actor.kind !== 'token') return actor
    const token = this.#options.tokens().find(({ id }) => id === actor.id)
    return token && this.#isValid(token) ? actorOf(token) : undefined
  }

  #isValid({ status, expiresAt }: AdminToken): boolean {
    return status === 'active' && (expiresAt === null || expiresAt > this.#options.now())
  }

  #current() {
    const tokens = this.#options.tokens()
    if (this.#known?.tokens !== tokens) {
      const byDigest = new Map(tokens.flatMap((token) => token.digests.map((digest) => [digest, token] as const)))
      this.#known = { tokens, byDigest }
    }
    return this.#known
  }
}

const actorOf = ({ id, name, bindings }: AdminToken): AdminActor => ({
  kind: 'token',
  id,
  name,
  bindings: bindings.flatMap(({ role, team }) => (isRole(role) ? [{ role, team }] : [])),
})
