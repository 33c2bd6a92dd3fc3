/** The interface between the server and signed tokens, of clients (auth.jwt) and of people (sso), which are loaded once they are configured. */
import type { Client } from '../core/accounts.ts'
import type { Outcome } from '../core/failure.ts'

/** `digest`: salted, of the token. */
export type SignedTokens = {
  /** The client of a token that was verified before; undefined: `verify` has the answer. */
  find(digest: string): Outcome<Client> | undefined
  verify(token: string, digest: string): Promise<Outcome<Client>>
}

/** Access tokens of a gateway begin with this: the header `{"alg":"HS256","typ":"JWT"}`, the only one that is accepted. */
export const ACCESS_TOKEN = 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.'
