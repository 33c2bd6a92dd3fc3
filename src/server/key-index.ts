/** Finds the owner of a presented key: of the configuration, of headgate.yaml or of the database. */
import { hash, randomBytes } from 'node:crypto'
import {
  ANONYMOUS,
  type Client,
  type ClientKey,
  DEFAULT_TEAM,
  type Directory,
  type KeySecret,
  type Team,
} from '../core/accounts.ts'
import { BoundedMap } from '../core/bounded-map.ts'
import type { Settings } from '../core/settings.ts'
import { clientOf, keyState } from '../policy/accounts/client.ts'
import { isWellFormedKey, keyKindOf } from '../policy/accounts/client-key.ts'
import { combined } from '../policy/accounts/data-policy.ts'
import { clientKeyIds } from '../records/entities/ids.ts'
import { digestsOf } from '../records/entities/secret-digest.ts'
import type { AdminToken } from '../records/store/record-operations.ts'
import { slashesIn } from './mask-path.ts'

const NO_DIRECTORY: Directory = { teams: new Map(), keys: new Map(), budgets: new Map(), prices: [], routes: new Map() }

/** The owner of a key. */
export type KnownKey =
  /** A key of `auth.keys`. */
  | { readonly kind: 'static'; readonly client: Client }
  /** `auth.admin`. */
  | { readonly kind: 'operator' }
  | { readonly kind: 'token'; readonly token: AdminToken }
  | { readonly kind: 'key'; readonly key: ClientKey; readonly secret: KeySecret; readonly team: Team }

/** A key of headgate.yaml or of the database, or an admin token. */
type StoredKey = Extract<KnownKey, { readonly kind: 'token' | 'key' }>

/** All keys at one time. */
export type KeySet = {
  readonly auth: Settings['auth']
  readonly directory: Directory
  readonly tokens: readonly AdminToken[]
}

/** The credential of a connection's last request, with its digest: nearly all of its requests have the same one. */
export type LastCredential = { text: string; digest: string }

/**
 * Finds keys by digest, so that the time of a look-up reveals nothing about how far a guess agrees with a key. Keys that
 * were presented are found with one digest, with a random salt, by which the last 10,000 found and unknown ones are kept. A
 * digest takes 2 µs, so a connection keeps that of its last credential.
 */
export class KeyIndex {
  /** The client of requests without a key. */
  readonly anonymous: Client
  /** See `OwnKeys.slashes`. */
  readonly slashes: readonly number[]
  readonly #pepper: string | undefined
  #directory: Directory = NO_DIRECTORY
  #tokens: readonly AdminToken[] = []
  /** The keys of the configuration, by salted digest. */
  readonly #configured = new Map<string, KnownKey>()
  /** The others, by stored digest. */
  readonly #stored = new Map<string, StoredKey>()
  /** Those whose digest a key that precedes them has, too. */
  readonly #shadowed = new Map<string, readonly StoredKey[]>()
  /** Digests with a pepper exist. */
  #isPeppered = false
  /** The stored digest of keys that were found. */
  #found = new BoundedMap<string>()
  #unknown = new BoundedMap<true>()
  readonly #clients = new Map<string, Client>()

  constructor({ auth, directory, tokens }: KeySet) {
    const { keys, admin, pepper } = auth
    const client = defaultClient(directory.teams.get(DEFAULT_TEAM.id))
    this.anonymous = client
    this.slashes = slashesIn([...keys, ...(admin === undefined ? [] : [admin])])
    this.#pepper = pepper
    if (admin !== undefined) this.#configured.set(saltedDigest(admin), { kind: 'operator' })
    for (const [key, id] of clientKeyIds(keys)) {
      const keyed: Client = { ...client, id, owner: ownerOf(key) }
      this.#configured.set(saltedDigest(key), { kind: 'static', client: keyed })
    }
    this.#apply(directory, tokens)
  }

  /**
   * Uses another directory and other tokens. Only what differs is indexed again. False: the configured keys depend on what
   * has changed, so that another index is needed.
   */
  update(directory: Directory, tokens: readonly AdminToken[]): boolean {
    const { id } = DEFAULT_TEAM
    if (directory.teams.get(id) !== this.#directory.teams.get(id)) return false
    this.#apply(directory, tokens)
    return true
  }

  #apply(directory: Directory, tokens: readonly AdminToken[]): void {
    const { teams, keys } = this.#directory
    if (tokens !== this.#tokens) {
      for (const token of this.#tokens) for (const digest of token.digests) this.#remove(digest, token.id)
      for (const token of tokens) for (const digest of token.digests) this.#store(digest, { kind: 'token', token })
    }
    if (directory.keys !== keys || directory.teams !== teams) {
      const isSame = (key: ClientKey, other: Directory) => other.keys.get(key.id) === key
      const hasSameTeam = ({ team }: ClientKey) => directory.teams.get(team) === teams.get(team)
      for (const key of keys.values())
        if (!isSame(key, directory) || !hasSameTeam(key)) {
          this.#clients.delete(key.id)
          for (const { digest } of key.secrets) this.#remove(digest, key.id)
        }
      for (const key of directory.keys.values()) {
        if (isSame(key, this.#directory) && hasSameTeam(key)) continue
        const team = directory.teams.get(key.team)
        if (team) for (const secret of key.secrets) this.#store(secret.digest, { kind: 'key', key, secret, team })
      }
    }
    this.#directory = directory
    this.#tokens = tokens
  }

  get isEmpty(): boolean {
    return this.#configured.size === 0 && this.#stored.size === 0
  }

  /** Undefined: unknown. `last`: of the connection. */
  find(presented: string, last: LastCredential = { text: '', digest: '' }): KnownKey | undefined {
    return this.findByDigest(isSame(presented, last.text) ? last.digest : saltedDigest(presented), presented, last)
  }

  /** The same with the salted digest of the credential. */
  findByDigest(
    salted: string,
    presented: string,
    last: LastCredential = { text: '', digest: '' },
  ): KnownKey | undefined {
    const known = this.#configured.get(salted) ?? this.#stored.get(this.#found.get(salted) ?? '')
    if (known && salted !== last.digest) Object.assign(last, { text: ownCopy(presented), digest: salted })
    if (known || this.#stored.size === 0 || isMistyped(presented) || this.#unknown.get(salted)) return known
    const digest = this.#storedDigestOf(presented)
    if (digest === undefined) this.#unknown.set(salted, true)
    else this.#found.set(salted, digest)
    return this.#stored.get(digest ?? '')
  }

  /** The client with a key; the same object for each request. */
  clientOf(key: ClientKey, team: Team): Client {
    const known = this.#clients.get(key.id)
    if (known) return known
    const client = clientOf(key, team)
    this.#clients.set(key.id, client)
    return client
  }

  #storedDigestOf(presented: string): string | undefined {
    const digests = digestsOf(presented, this.#isPeppered ? this.#pepper : undefined)
    const [first, second] = digests.filter((digest) => this.#stored.has(digest))
    if (first === undefined || second === undefined) return first
    const [one, other] = [this.#stored.get(first), this.#stored.get(second)]
    return one && other && precedes(other, one) ? second : first
  }

  #store(digest: string, known: StoredKey): void {
    if (digest.startsWith('h1:')) this.#isPeppered = true
    const holder = this.#stored.get(digest)
    if (!holder) {
      if (!this.#unknown.isEmpty) this.#unknown = new BoundedMap()
      // With a pepper, a key that was found by one digest may have to give way to the owner of the other.
      if (this.#isPeppered && !this.#found.isEmpty) this.#found = new BoundedMap()
    }
    const isFirst = !holder || precedes(known, holder)
    if (isFirst) this.#stored.set(digest, known)
    if (holder) this.#shadow(digest, [...(this.#shadowed.get(digest) ?? []), isFirst ? holder : known])
  }

  /** `owner`: the ID of the key or token. The next one with the digest, if there is one, has it from now on. */
  #remove(digest: string, owner: string): void {
    const others = this.#shadowed.get(digest)?.filter((known) => idOf(known) !== owner) ?? []
    const holder = this.#stored.get(digest)
    if (!holder || idOf(holder) !== owner) return this.#shadow(digest, others)
    const [next, ...rest] = others.toSorted((one, other) => (precedes(one, other) ? -1 : 1))
    if (next) this.#stored.set(digest, next)
    else this.#stored.delete(digest)
    this.#shadow(digest, rest)
  }

  #shadow(digest: string, others: readonly StoredKey[]): void {
    if (others.length > 0) this.#shadowed.set(digest, others)
    else this.#shadowed.delete(digest)
  }
}

const SALT = randomBytes(32).toString('base64')
/** The digest by which presented credentials are found and kept. */
export const saltedDigest = (text: string): string => hash('sha256', SALT + text, 'base64')

/** A part of a header block keeps the whole block alive. */
const ownCopy = (text: string): string => Buffer.from(text, 'utf16le').toString('utf16le')

/** Its time depends on the length only: a connection of a proxy has the keys of several clients. */
const isSame = (presented: string, last: string): boolean => {
  if (presented.length !== last.length) return false
  let difference = 0
  for (let at = 0; at < last.length; at++) difference |= presented.charCodeAt(at) ^ last.charCodeAt(at)
  return difference === 0
}

const idOf = (known: StoredKey): string => (known.kind === 'key' ? known.key.id : known.token.id)

/**
 * Which of two owners of a secret counts: the key of headgate.yaml, otherwise the older one. So what others write to the
 * database never takes a key from its owner.
 */
const precedes = (one: StoredKey, other: StoredKey): boolean => rankOf(one) < rankOf(other)

const rankOf = (known: StoredKey): number => {
  if (known.kind === 'token') return 0
  return known.key.managed === 'file' ? -1 : known.key.createdAt
}

/** Whether a text has the prefix of this gateway's keys and a wrong checksum. */
export const isMistyped = (presented: string): boolean =>
  keyKindOf(presented) !== undefined && !isWellFormedKey(presented)

/** The owner of the stored responses of a configured key: 32 hexadecimal digits of its digest. */
/** The client with this ID and owner, if it may call models now. `now`: ms since 1970. */
export const clientNow = (
  { auth, directory }: Pick<KeySet, 'auth' | 'directory'>,
  { id, owner }: Pick<Client, 'id' | 'owner'>,
  now: number,
): Client | null => {
  const key = directory.keys.get(id)
  const team = key && directory.teams.get(key.team)
  if (key && team) return key.id === owner && keyState(key, team, now) === 'active' ? clientOf(key, team) : null
  const client = defaultClient(directory.teams.get(DEFAULT_TEAM.id))
  if (id === '') return owner === '' ? client : null
  const isConfigured = [...clientKeyIds(auth.keys)].some(([secret, known]) => known === id && ownerOf(secret) === owner)
  return isConfigured ? { ...client, id, owner } : null
}

const ownerOf = (key: string): string => hash('sha256', key, 'hex').slice(0, 32)

/** Requests without a key, and keys of the configuration, have what the default team has. */
const defaultClient = (team: Team | undefined): Client => {
  if (!team) return ANONYMOUS
  const { id, access, limits, tags, cache } = team
  const require = combined(team.require)
  const restricts = Object.values(access).some((list) => list !== null)
  const isLimited = Object.values(limits).some((limit) => limit !== null)
  return {
    ...ANONYMOUS,
    access: restricts ? [access] : [],
    limits: isLimited ? [{ id, limits }] : [],
    tags,
    cache,
    ...(require && { require }),
  }
}
