/** Clients that present signed tokens: verified once, then found by digest. */
import { createHash } from 'node:crypto'
import type { Client, Directory } from '../core/accounts.ts'
import { BoundedMap } from '../core/bounded-map.ts'
import { bad, fail, good, type Outcome } from '../core/failure.ts'
import type { SeenIdentity } from '../core/seen-identity.ts'
import type { TokenIdentity, TokenRule } from '../core/token-rule.ts'
import { createAccountId } from '../policy/accounts/client-key.ts'
import { teamNamed } from '../policy/accounts/directory.ts'
import { checkClaims } from '../policy/identity/check-claims.ts'
import { type SubjectIds, subjectKey, tokenClient } from '../policy/identity/token-client.ts'
import { readToken } from '../policy/identity/token-form.ts'
import { IssuerKeys, type IssuerKeysOptions } from './issuer-keys.ts'
import { isSigned } from './signature.ts'

/** ms between two looks whether the keys behind a kept result are still the present ones. */
const RECHECK = 5 * 60_000

export type TokenClientsOptions = Pick<IssuerKeysOptions, 'date' | 'fetchSet' | 'kept'> & {
  readonly directory: () => Directory
  /** The end of the block of each `subjectKey`; null: none is blocked. */
  readonly blocked: () => ReadonlyMap<string, number> | null
  /** The keys of an issuer cannot be fetched; null: they can again. */
  readonly onProblem: (issuer: string, problem: string | null) => void
}

/** `latest`: its last token. */
type MutableSeen = { -readonly [name in keyof SeenIdentity]: SeenIdentity[name] } & SubjectIds & { latest: string }

/** A token that was verified. */
type KnownToken = {
  readonly identity: TokenIdentity
  /** See `subjectKey`. */
  readonly key: string
  readonly seen: MutableSeen
  readonly issuer: IssuerKeys
  readonly generation: number
  readonly rules: readonly TokenRule[]
  recheckAt: number
  /** For the directory beside it. */
  client: Outcome<Client>
  directory: Directory
}

export class TokenClients {
  readonly #options: TokenClientsOptions
  #rules: readonly TokenRule[] = []
  /** By the place of the keys. */
  #issuers: ReadonlyMap<string, IssuerKeys> = new Map()
  /** By digest of the token. */
  #known = new BoundedMap<KnownToken>()
  /** By ID of the client. */
  readonly #seen = new BoundedMap<MutableSeen>()

  constructor(options: TokenClientsOptions) {
    this.#options = options
  }

  /** Uses these rules. Results of equal rules stay valid, and keys of an equal place are kept. */
  use(rules: readonly TokenRule[]): void {
    if (JSON.stringify(rules) === JSON.stringify(this.#rules)) return
    this.#rules = rules
    this.#known = new BoundedMap()
    const issuers = new Map<string, IssuerKeys>()
    for (const { keys: place } of rules) {
      const id = JSON.stringify(place)
      const { date, fetchSet, kept, onProblem } = this.#options
      const known = this.#issuers.get(id) ?? issuers.get(id)
      const report = (problem: string | null) => onProblem(place.issuer, problem)
      issuers.set(id, known ?? new IssuerKeys({ place, date, fetchSet, kept, onProblem: report }))
    }
    this.#issuers = issuers
    for (const issuer of issuers.values()) issuer.refresh()
  }

  /** The client of a token that was verified before; undefined: `verify` has the answer. */
  find(digest: string): Outcome<Client> | undefined {
    const known = this.#known.get(digest)
    if (!known) return undefined
    const now = this.#options.date()
    const { identity, issuer, generation } = known
    if (now >= identity.until || issuer.generation !== generation || !issuer.isUsable(now)) return undefined
    if (now >= known.recheckAt) {
      known.recheckAt = now + RECHECK
      issuer.refresh()
    }
    return this.#clientOf(known, now)
  }

  /** Verifies a token, and keeps the result. All refusals have one text; `detail` has the reason. */
  async verify(token: string, digest: string): Promise<Outcome<Client>> {
    const read = readToken(token)
    if (!read.ok) return refuse('jwt', read.reason)
    const { claims, ...wanted } = read
    const rules = this.#rules
    const ofIssuer = rules.filter(({ keys }) => keys.issuer === claims.iss)
    const [first] = ofIssuer
    if (!first) return refuse('jwt', this.#issuerProblem(claims.iss))
    const usable = ofIssuer.filter(({ algorithms }) => algorithms.includes(wanted.algorithm))
    if (usable.length === 0) return refuse(`jwt ${first.name}`, 'alg')
    const issuer = this.#issuers.get(JSON.stringify(first.keys))
    const key = (await issuer?.find(wanted)) ?? 'unavailable'
    if (!issuer || key === 'unavailable') return bad(UNAVAILABLE)
    if (key === 'unknown') return refuse(`jwt ${first.name}`, 'kid')
    const { generation } = issuer
    if (!(await isSigned(token, key, wanted.algorithm))) return refuse(`jwt ${first.name}`, 'signature')
    const now = this.#options.date()
    const results = usable.map((rule) => checkClaims(rule, claims, now))
    const found = results.find((result) => result.ok)
    if (!found?.ok) {
      const reasons = results.map((result, at) => `jwt ${usable[at]?.name}: ${result.ok ? '' : result.reason}`)
      const isTeamless = results.some((result) => !result.ok && result.noTeam)
      return isTeamless ? bad(teamUnknown(reasons.join('; '))) : refuse('', reasons.join('; '))
    }
    const { identity } = found
    const subject = subjectKey(identity)
    const seen = this.#seenOf(identity, subject, { digest, now })
    const directory = this.#options.directory()
    const client = this.#make(identity, seen)
    const recheckAt = now + RECHECK
    const known = { identity, key: subject, seen, issuer, generation, rules, recheckAt, client, directory }
    // A reload may have replaced the rules while it was verified.
    if (rules === this.#rules) this.#known.set(digest, known)
    return this.#clientOf(known, now)
  }

  /** The subjects seen by this process, the latest first. */
  seen(): readonly SeenIdentity[] {
    return [...this.#seen.ids()]
      .flatMap((id) => this.#seen.get(id) ?? [])
      .toSorted((one, other) => other.last - one.last)
      .map(({ owner: _owner, latest: _latest, ...shown }) => shown)
  }

  /** A client that was seen, if its last token is still valid. */
  clientNow({ id, owner }: Pick<Client, 'id' | 'owner'>): Client | null {
    const seen = this.#seen.get(id)
    const found = seen?.owner === owner ? this.find(seen.latest) : undefined
    return found?.ok ? found.value : null
  }

  /** The subject of a client that was seen. */
  nameOf(id: string): string | undefined {
    return this.#seen.get(id)?.subject
  }

  #clientOf(known: KnownToken, now: number): Outcome<Client> {
    const { key, identity, seen } = known
    const until = this.#options.blocked()?.get(key)
    if (until !== undefined && now < until) return refuse(`jwt ${identity.rule.name}`, 'blocked')
    const directory = this.#options.directory()
    if (known.directory !== directory) {
      known.directory = directory
      known.client = this.#make(identity, seen)
    }
    seen.last = now
    return known.client
  }

  #make(identity: TokenIdentity, seen: MutableSeen): Outcome<Client> {
    const team = teamNamed(this.#options.directory(), identity.team)
    if (!team) return bad(teamUnknown(`jwt ${identity.rule.name}: there is no team ${JSON.stringify(identity.team)}`))
    return good(tokenClient(identity, seen, team))
  }

  #seenOf(
    { rule, subject, user, team }: TokenIdentity,
    key: string,
    { digest, now }: { readonly digest: string; readonly now: number },
  ): MutableSeen {
    const ids = subjectIds(key)
    const known = this.#seen.get(ids.id)
    const issuer = rule.keys.issuer
    const seen = {
      ...ids,
      rule: rule.name,
      issuer,
      subject,
      user,
      team,
      first: known?.first ?? now,
      last: now,
      latest: digest,
    }
    if (known) return Object.assign(known, seen)
    this.#seen.set(ids.id, seen)
    return seen
  }

  #issuerProblem(iss: unknown): string {
    const shown = JSON.stringify(iss)?.slice(0, 200)
    const alike = this.#rules.find(({ keys }) => typeof iss === 'string' && bare(keys.issuer) === bare(iss))
    return alike
      ? `iss is ${shown}, and the rule ${alike.name} has ${JSON.stringify(alike.keys.issuer)}`
      : `no rule for iss ${shown}`
  }
}

const bare = (issuer: string): string => issuer.replace(/^https?:\/\//, '').replace(/\/$/, '')

/** The IDs of a subject, equal in all processes and after each restart. */
const subjectIds = (key: string): SubjectIds => {
  let draws = 0
  const digest = (label: string) => createHash('sha256').update(`headgate token subject ${label} ${key}`).digest()
  const id = createAccountId('jwt', (count) => digest(`id ${draws++}`).subarray(0, count))
  return { id, owner: digest('owner').toString('hex').slice(0, 32) }
}

const refuse = (rule: string, reason: string): Outcome<Client> =>
  bad(fail('unauthenticated', NOT_ACCEPTED, { detail: rule === '' ? reason : `${rule}: ${reason}` }))

const NOT_ACCEPTED =
  'The token was not accepted. Send a valid token that is meant for this gateway; the log of the gateway has the reason for this request ID.'

const UNAVAILABLE = fail(
  'keys_unavailable',
  'The keys of the issuer of this token cannot be read at present. Try again later; the log of the gateway has the reason.',
  { retryAfter: 2_000 },
)

const teamUnknown = (detail: string) =>
  fail(
    'team_unknown',
    'This token belongs to no team of the gateway. Ask its operator to map it to a team (auth.jwt).',
    { detail },
  )
