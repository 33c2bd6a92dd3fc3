/** Clients that present access tokens of people: verified once, then found by digest. */
import type { Client, Directory } from '../core/accounts.ts'
import { BoundedMap } from '../core/bounded-map.ts'
import { bad, fail, good, type Outcome } from '../core/failure.ts'
import type { SignInSettings } from '../core/sign-in.ts'
import { teamNamed } from '../policy/accounts/directory.ts'
import { personClient } from '../policy/accounts/person-client.ts'
import { readAccessClaims, type TokenPerson } from '../policy/sign-in/access-claims.ts'
import { payingTeam } from '../policy/sign-in/membership.ts'
import { personRefusal } from '../policy/sign-in/person-refusal.ts'
import { verifyAccessToken } from './access-token.ts'
import type { SignedTokens } from './signed-tokens.ts'

export type PersonTokensOptions = {
  readonly settings: () => SignInSettings | null
  readonly directory: () => Directory
  /** The sign-ins whose tokens are no longer valid; another object after each change. */
  readonly ended: () => ReadonlySet<string>
  /** ms since 1970. */
  readonly now: () => number
}

/** A token that was verified. `settings` and `directory`: those of `client`. */
type KnownPersonToken = {
  readonly person: TokenPerson
  settings: SignInSettings
  directory: Directory
  client: Outcome<Client>
}

export class PersonTokens implements SignedTokens {
  readonly #options: PersonTokensOptions
  /** By digest of the token. */
  readonly #known = new BoundedMap<KnownPersonToken>()
  /** The last token of each person, by ID of the person. */
  readonly #latest = new BoundedMap<KnownPersonToken>()

  constructor(options: PersonTokensOptions) {
    this.#options = options
  }

  find(digest: string): Outcome<Client> | undefined {
    const known = this.#known.get(digest)
    // Of other settings the secret may be another.
    return known && known.settings === this.#options.settings() ? this.#clientOf(known) : undefined
  }

  async verify(token: string, digest: string): Promise<Outcome<Client>> {
    const { settings: read, directory, now } = this.#options
    const settings = read()
    if (!settings) return refuse('single sign-on is off')
    const claims = verifyAccessToken(settings.secrets, token)
    if (!claims) return refuse('signature')
    const person = readAccessClaims(claims, settings.publicUrl, now())
    if (typeof person === 'string') return refuse(person)
    const teams = directory()
    const known = { person, settings, directory: teams, client: clientIn(person, settings, teams) }
    this.#known.set(digest, known)
    this.#latest.set(person.id, known)
    return this.#clientOf(known)
  }

  /** The client of a person whose last token here is still valid; null: there is none. */
  clientNow(id: string): Client | null {
    const known = this.#latest.get(id)
    const found = known && this.#clientOf(known)
    return found?.ok ? found.value : null
  }

  /** The name of a person who has called. */
  nameOf(id: string): string | undefined {
    const person = this.#latest.get(id)?.person
    return person && nameOf(person)
  }

  #clientOf(known: KnownPersonToken): Outcome<Client> {
    const { person } = known
    const settings = this.#options.settings()
    if (this.#options.now() >= person.until) return refuse('exp')
    if (!settings || this.#options.ended().has(person.signIn)) return refuse('the sign-in has ended')
    const directory = this.#options.directory()
    if (known.settings !== settings || known.directory !== directory) {
      known.settings = settings
      known.directory = directory
      known.client = clientIn(person, settings, directory)
    }
    return known.client
  }
}

const nameOf = ({ id, email, name }: TokenPerson): string => email ?? name ?? id

/** The client that a person and the paying team make. */
const clientIn = (person: TokenPerson, settings: SignInSettings, directory: Directory): Outcome<Client> => {
  if (!settings.providers.some(({ name }) => name === person.provider)) return refuse('idp')
  const id = payingTeam(settings.teams, person, (name) => teamNamed(directory, name)?.id)
  const team = id === undefined ? undefined : directory.teams.get(id)
  if (!team) return bad(NO_TEAM)
  const { provider, email, groups } = person
  const client = personClient({ ...person, name: nameOf(person) }, team)
  return good({ ...client, person: { provider, email, groups } })
}

const refuse = (detail: string): Outcome<Client> => bad(fail('unauthenticated', ENDED, { detail: `sso: ${detail}` }))

const ENDED = 'This sign-in has ended, or the token is not of this gateway. Sign in again: headgate login.'

const NO_TEAM = personRefusal(
  fail('team_unknown', 'No team of the gateway pays for your model calls. Ask its operator for a rule (sso.teams).'),
)
