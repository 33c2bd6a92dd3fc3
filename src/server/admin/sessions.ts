/** Sessions of browsers. They are rows of `control.db`, which all processes share; each process keeps those it used last. */
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { JsonObject } from '../../core/json.ts'
import type { SessionRules } from '../../core/sign-in.ts'
import { SESSION_AGE } from '../../records/store/logins.ts'
import type {
  ControlContext,
  ControlOperation,
  LoginPerson,
  PersonLogin,
  RunOperation,
} from '../../records/store/record-operations.ts'
import type { AdminActor } from './actor.ts'

/** Sessions kept in memory; the one used longest ago is dropped first. */
const MAX_SESSIONS = 1_000
/** ms after which a session is read again: a logout in another process takes effect within this time. */
const FRESH = 500
const SECRET = /^[\w-]{43}$/

/** A session. `until`: ms since 1970. */
export type Session = {
  /** Null: `person` has it, whose roles follow from the settings. */
  readonly actor: AdminActor | null
  /** With single sign-on. `isCheckDue`: the caller checks the person at the issuer. */
  readonly person: { readonly is: LoginPerson; readonly login: PersonLogin; readonly isCheckDue: boolean } | null
  /** The value that every write must repeat in a header. */
  readonly csrf: string
  /** Of the token of `auth.admin` with which it began; null: it began with a token of the database. */
  readonly seal: string | null
  readonly until: number
}

type KnownSession = {
  readonly session: Session
  /** When the row was read; null: it could not be stored, and is valid in this process only. */
  readonly readAt: number | null
}

export type SessionsOptions = {
  /** How long sessions of people last; null: there is no single sign-on. */
  readonly rules: () => SessionRules | null
  /** Whether there is a database: without one, an operation creates it. */
  readonly isStored: () => boolean
  readonly run: RunOperation
  /** ms since 1970. */
  readonly now: () => number
}

/** The result of a search. `unknown`: there is no such session. */
export type FoundSession = { readonly secret: string; readonly session: Session } | 'unknown'

export class Sessions {
  readonly #options: SessionsOptions
  /** By digest of the cookie's value, the least recently used first. */
  readonly #known = new Map<string, KnownSession>()

  constructor(options: SessionsOptions) {
    this.#options = options
  }

  /** Creates a session. `secret` is the value of its cookie. `admin`: the token of `auth.admin`, if it is used. */
  async create(
    actor: AdminActor,
    admin: string | null,
  ): Promise<{ readonly secret: string; readonly session: Session }> {
    const secret = randomBytes(32).toString('base64url')
    const csrf = randomBytes(24).toString('base64url')
    const seal = admin === null ? null : sealOf(secret, admin)
    const digest = digestOf(secret)
    const { now, run } = this.#options
    const create = { do: 'login_create', digest, actor: { ...storedActor(actor), seal }, csrf } as const
    const result = await run(create, SESSION_CONTEXT)
    // Without the database an operator can still sign in, to this process.
    const local = { actor, person: null, csrf, seal, until: now() + SESSION_AGE }
    const session = result.ok ? sessionOf(result.value) : local
    this.#keep(digest, { session, readAt: result.ok ? now() : null })
    return { secret, session }
  }

  /**
   * Creates a session of a person who signs in. `mayEnter`: whether the person, with roles given by hand, has access. A session of a
   * person needs the database, from which others can end it.
   */
  async createForPerson(
    signIn: Pick<Extract<ControlOperation, { readonly do: 'login_person' }>, 'person' | 'sid' | 'login'>,
    mayEnter: (person: LoginPerson) => boolean,
    rules: SessionRules,
  ): Promise<
    | { readonly ok: true; readonly secret: string; readonly person: LoginPerson }
    | { readonly ok: false; readonly why: 'blocked' | 'no_role' | 'storage' }
  > {
    const secret = randomBytes(32).toString('base64url')
    const csrf = randomBytes(24).toString('base64url')
    const digest = digestOf(secret)
    const { run } = this.#options
    const result = await run({ do: 'login_person', digest, csrf, ...signIn, rules }, SESSION_CONTEXT)
    if (!result.ok) return { ok: false, why: result.error.code === 'person_blocked' ? 'blocked' : 'storage' }
    const { person } = sessionOf(result.value)
    if (!person) throw new Error('a session of a person has none')
    if (mayEnter(person.is)) return { ok: true, secret, person: person.is }
    await run({ do: 'login_end', digest }, SESSION_CONTEXT)
    return { ok: false, why: 'no_role' }
  }

  /** Reads a session again at its next use. Returns the digest under which it is stored. */
  forget(secret: string): string {
    const digest = digestOf(secret)
    this.#known.delete(digest)
    return digest
  }

  /** Whether a session is in the memory of this process, so that a search costs little. */
  isKnown(secret: string): boolean {
    return this.#known.has(digestOf(secret))
  }

  /** The session of a cookie's value; renews it. */
  async find(secret: string): Promise<FoundSession> {
    if (!SECRET.test(secret)) return 'unknown'
    const digest = digestOf(secret)
    const known = this.#known.get(digest)
    const { now, run, isStored, rules } = this.#options
    if (!known && !isStored()) return 'unknown'
    if (known && known.session.until > now() && (known.readAt === null || now() - known.readAt < FRESH)) {
      this.#keep(digest, known)
      return { secret, session: known.session }
    }
    const result =
      known?.readAt === null ? null : await run({ do: 'login_use', digest, rules: rules() }, SESSION_CONTEXT)
    if (result?.ok) {
      const session = sessionOf(result.value)
      const { person } = session
      this.#keep(digest, { session: { ...session, person: person && { ...person, isCheckDue: false } }, readAt: now() })
      return { secret, session }
    }
    // The database cannot be read: nothing can end the session there either.
    if (known && known.session.until > now() && result?.error.status === 503) return { secret, session: known.session }
    this.#known.delete(digest)
    return 'unknown'
  }

  /** Ends a session in all processes. */
  async end(secret: string): Promise<void> {
    const digest = digestOf(secret)
    this.#known.delete(digest)
    const { run, isStored } = this.#options
    if (SECRET.test(secret) && isStored()) await run({ do: 'login_end', digest }, SESSION_CONTEXT)
  }

  #keep(digest: string, known: KnownSession): void {
    this.#known.delete(digest)
    this.#known.set(digest, known)
    const [oldest] = this.#known.keys()
    if (this.#known.size > MAX_SESSIONS && oldest !== undefined) this.#known.delete(oldest)
  }
}

/** Sessions are no records: no rights apply, and nothing is repeated. */
export const SESSION_CONTEXT: ControlContext = {
  actor: { kind: 'gateway', id: 'gateway', name: 'gateway' },
  from: null,
  requestId: null,
  teams: null,
  idempotencyKey: null,
}

const storedActor = ({ kind, id, name, bindings }: AdminActor): JsonObject => ({
  kind,
  id,
  name,
  bindings: bindings.map(({ role, team }) => ({ role, team })),
})

type PersonSession = Pick<Session, 'csrf' | 'until'> & {
  readonly person: LoginPerson
  readonly login: PersonLogin
  readonly isCheckDue: boolean
}

/** A row that `create` has stored. */
const sessionOf = (value: JsonObject): Session => {
  if ('person' in value) {
    const { person, login, isCheckDue, csrf, until } = value as unknown as PersonSession
    return { actor: null, person: { is: person, login, isCheckDue }, csrf, seal: null, until }
  }
  const { actor, csrf, until } = value as unknown as Omit<Session, 'actor'> & {
    readonly actor: AdminActor & Pick<Session, 'seal'>
  }
  const { seal, ...rest } = actor
  return { actor: rest, person: null, csrf, seal, until }
}

const digestOf = (secret: string): string => hash('sha256', secret, 'hex')

/** Ties a session to a token without storing a digest of it alone, with which the token could be guessed. */
export const sealOf = (secret: string, admin: string): string =>
  createHmac('sha256', secret).update(admin).digest('base64url')

/** Whether two texts are equal, in a time that does not depend on where they differ. */
export const isEqualSecret = (given: string, expected: string): boolean =>
  timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', expected, 'buffer'))
