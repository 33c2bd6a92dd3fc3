/** Operations on `control.db`, their results, and the events of its thread. All are plain JSON data. */
import type { AccountRecords, FileAccounts } from '../../core/accounts.ts'
import type { JsonObject } from '../../core/json.ts'
import type { SessionRules, SignedIn } from '../../core/sign-in.ts'
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import type { RecordKind } from '../entities/bodies.ts'

/** The person or program that makes a request. `kind`: `token`, `user`, `operator` (auth.admin), `cli` … */
export type Actor = { readonly kind: string; readonly id: string; readonly name: string }

/** Who makes an operation, and how. */
export type ControlContext = {
  readonly actor: Actor
  /** The address of the client. */
  readonly from: string | null
  readonly requestId: string | null
  /** IDs of the teams whose keys the actor may read and change; null: no restriction. */
  readonly teams: readonly string[] | null
  /** Repeating a write with the same key within 24 h returns the first answer, without secrets. */
  readonly idempotencyKey: string | null
}

/** Filters of a list. Several values of one filter: any of them. */
export type RecordFilter = {
  readonly team?: readonly string[]
  readonly status?: readonly string[]
  readonly managed?: readonly string[]
  /** `name:value`. */
  readonly tag?: readonly string[]
  /** Part of the name, an ID, or the end of a secret. */
  readonly q?: string
  /** ISO 8601. */
  readonly last_used_before?: string
}
export type RecordList = RecordFilter & {
  /** 1 to 200; default 50. */
  readonly limit?: number
  /** `next` of the page before. */
  readonly after?: string
  /** `created_at`, `name`, `last_used_at`, `expires_at`, `status`, `spend`; descending with `-`. Default `-created_at`. */
  readonly sort?: string
  /** Amounts in nano-dollars to sort by as `spend`, by ID. The others have 0. */
  readonly amounts?: readonly { readonly id: string; readonly amount: number }[]
}

/** `rev`: the expected revision; null: any. */
type Expected = { readonly id: string; readonly rev: number | null }

export type BulkAction = 'block' | 'unblock' | 'revoke'

export type ControlRead =
  | ({ readonly do: 'list'; readonly kind: RecordKind } & { readonly query: RecordList })
  | { readonly do: 'get'; readonly kind: RecordKind; readonly id: string }
  | { readonly do: 'decisions' }
  /** People, the one who signed in last first. `q`: part of the name or the e-mail address. */
  | { readonly do: 'people'; readonly query: { readonly limit?: number; readonly after?: string; readonly q?: string } }
  | { readonly do: 'person'; readonly id: string }
  /** Sign-ins of programs, the one used last first. `person`: an ID. */
  | {
      readonly do: 'sign_ins'
      readonly query: { readonly limit?: number; readonly after?: string; readonly person?: string }
    }
  | { readonly do: 'audit'; readonly query: AuditList }
  /** Checks the hash chain of the audit rows, in batches between which other operations run. */
  | { readonly do: 'verify' }
  /** Nothing: as with every operation, the changes so far are reported before the result. */
  | { readonly do: 'refresh' }

export type ControlWrite =
  | { readonly do: 'create'; readonly kind: RecordKind; readonly body: unknown }
  /** `patch`: a JSON Merge Patch (RFC 7396) of the body. */
  | ({ readonly do: 'patch'; readonly kind: RecordKind; readonly patch: unknown } & Expected)
  /** A key or token is revoked and stays in lists. `keys`: what happens to the keys of a team. */
  | ({ readonly do: 'delete'; readonly kind: RecordKind; readonly keys?: 'revoke' } & Expected)
  /** `overlap`: how long the older secrets stay valid: `0s`, `24h`, `7d`. */
  | { readonly do: 'rotate'; readonly id: string; readonly overlap: string }
  /** The secrets that are older than the newest end now. */
  | { readonly do: 'retire'; readonly id: string }
  | { readonly do: 'block' | 'unblock'; readonly kind: 'team' | 'key'; readonly id: string }
  | { readonly do: 'bulk'; readonly action: BulkAction; readonly ids: readonly string[] }
  | { readonly do: 'bulk'; readonly action: BulkAction; readonly filter: RecordFilter }
  /** `state` null removes the decision. `until`: ISO 8601. */
  | {
      readonly do: 'decide'
      readonly kind: 'credential' | 'circuit' | 'end_user' | 'identity' | 'session' | 'canary'
      readonly id: string
      readonly state: string | null
      readonly until: string | null
      readonly reason: string
    }
  /** Changes a person. A blocked one is signed out. */
  | ({ readonly do: 'person_patch'; readonly patch: PersonPatch } & Expected)
  /** Ends the sessions of a person. */
  | { readonly do: 'person_sign_out'; readonly id: string }
  /** Ends a sign-in of a program. */
  | { readonly do: 'sign_in_delete'; readonly id: string }
  /** Adds an audit row for an action that changes no record, such as a login or reading a body. */
  | { readonly do: 'note'; readonly action: string; readonly object: string; readonly details: JsonObject }

/** `bindings`: roles beside those of the groups; `team`: an ID; null: all teams. */
export type PersonPatch = {
  readonly status?: 'active' | 'blocked' | undefined
  readonly bindings?: readonly { readonly role: string; readonly team: string | null }[] | undefined
}

/** The sign-in of a session. The tokens of the issuer are encrypted; null: it gave none. Times in ms since 1970. */
export type PersonLogin = {
  readonly begun: number
  /** The last check at the issuer whether the person has access. */
  readonly checked: number
  readonly idToken: string | null
  readonly refreshToken: string | null
}

/** A person as a session has them. */
export type LoginPerson = SignedIn & { readonly id: string; readonly bindings: NonNullable<PersonPatch['bindings']> }

/**
 * Sessions of browsers; these operations add no audit row. `digest`: of the cookie's value. `login_use` renews the session
 * and returns it (`StoredLogin`), or an error with status 404. With `isCheckDue` the caller checks the person at the issuer:
 * no other one does so before `recheck` has passed again. `rules` null: sessions of people have ended.
 */
export type ControlLogin =
  | { readonly do: 'login_create'; readonly digest: string; readonly actor: JsonObject; readonly csrf: string }
  | { readonly do: 'login_use'; readonly digest: string; readonly rules: SessionRules | null }
  /** A person signs in. An error with status 403: an administrator has blocked them. `sid`: their session at the issuer. */
  | {
      readonly do: 'login_person'
      readonly digest: string
      readonly csrf: string
      readonly person: SignedIn
      readonly sid: string | null
      readonly login: PersonLogin
      readonly rules: SessionRules
    }
  /** The result of a check at the issuer. */
  | {
      readonly do: 'login_checked'
      readonly digest: string
      readonly person: SignedIn | null
      readonly login: PersonLogin
    }
  /** The issuer ends sessions: one by `sid`, or all of a subject. `jti`: works once. */
  | {
      readonly do: 'login_end_by_issuer'
      readonly issuer: string
      readonly subject: string | null
      readonly sid: string | null
      readonly jti: string
    }
  | { readonly do: 'login_end'; readonly digest: string }

/**
 * Sign-ins of programs by the device flow; these operations add no audit row. All digests are of random values. What a person may not
 * do, and what is not there, are errors with the OAuth code that the program receives.
 */
export type ControlSignIn =
  /** `code`: as the person types it. An error with status 409: it is in use. 503: too many wait. */
  | {
      readonly do: 'device_create'
      readonly digest: string
      readonly code: string
      readonly client: string
      readonly address: string
    }
  /** The client and the address of a code that waits; an error with status 404: there is none. */
  | { readonly do: 'device_find'; readonly code: string }
  /** The person of a code has signed in. `confirm`: the digest of what the decision repeats. */
  | {
      readonly do: 'device_claim'
      readonly code: string
      readonly confirm: string
      readonly person: SignedIn
      readonly login: PersonLogin
    }
  | { readonly do: 'device_decide'; readonly confirm: string; readonly approve: boolean }
  /** `refresh`: the digest of the first refresh token, if the person has approved. */
  | { readonly do: 'device_poll'; readonly digest: string; readonly refresh: string }
  /** Finds the sign-in of a refresh token. With `isCheckDue` the caller checks the person at the issuer. A replay ends the sign-in. */
  | { readonly do: 'sign_in_use'; readonly refresh: string }
  /**
   * Replaces a refresh token. `next`: what each secret derives from it; the answer has the number of the one that is valid. `person` and
   * `login` null: the issuer was not asked.
   */
  | {
      readonly do: 'sign_in_rotate'
      readonly refresh: string
      readonly next: readonly string[]
      readonly person: SignedIn | null
      readonly login: PersonLogin | null
    }
  /** The check at the issuer had no result: the next use is checked. */
  | { readonly do: 'sign_in_unchecked'; readonly id: string }
  /** By its refresh token, or by its ID. */
  | { readonly do: 'sign_in_end'; readonly refresh: string }
  | { readonly do: 'sign_in_end'; readonly id: string }
  /** The person of a sign-in, for the admin API. */
  | { readonly do: 'sign_in_person'; readonly id: string }

export type ControlOperation = ControlRead | ControlWrite | ControlLogin | ControlSignIn

export type AuditList = {
  readonly actor?: readonly string[]
  readonly action?: readonly string[]
  readonly object?: readonly string[]
  /** The parts of actions before the dot, such as `key`. */
  readonly kind?: readonly string[]
  /** `only`: sign-ins and their ends; `none`: all others. */
  readonly sign_ins?: 'only' | 'none'
  /** Text in the action, the object, the actor, the address or the details, in any case. */
  readonly q?: string
  /** ISO 8601, half open. */
  readonly from?: string
  readonly to?: string
  readonly limit?: number
  readonly after?: string
}

/** `path`: the member that is wrong, such as `limits.concurrent`. `errors`: all of them. */
export type ControlError = {
  readonly code: string
  readonly message: string
  readonly path: string | null
  readonly status: number
  readonly errors?: readonly { readonly path: string; readonly message: string }[]
}

/** `replayed`: the answer to an earlier request with the same idempotency key. */
export type ControlResult =
  | { readonly ok: true; readonly status: number; readonly value: JsonObject; readonly replayed?: boolean }
  | { readonly ok: false; readonly error: ControlError }

/** Runs an operation on the database of this process. */
export type RunOperation = (operation: ControlOperation, context: ControlContext) => Promise<ControlResult>

/** An operator's decision about a provider credential, a circuit or an end user (`blockedUserId`). `until`: ms since 1970. */
export type Decision = {
  readonly kind: string
  readonly id: string
  readonly state: string
  readonly until: number | null
  readonly reason: string
}

/** An admin token for authentication. */
export type AdminToken = {
  readonly id: string
  readonly name: string
  readonly status: string
  readonly expiresAt: number | null
  readonly digests: readonly string[]
  readonly bindings: readonly { readonly role: string; readonly team: string | null }[]
}

/** Everything that the serving process needs from the database, up to the change `seq`. */
export type StoredAccounts = {
  readonly seq: number
  readonly records: AccountRecords
  readonly tokens: readonly AdminToken[]
  readonly decisions: readonly Decision[]
  /** A key, team, budget or token was stored at some time. Absent: unknown. */
  readonly isNamed?: boolean
}

/** Changes up to `seq`. `tokens` and `decisions`: all of them if any has changed, otherwise null. */
export type AccountsChange = {
  readonly seq: number
  readonly records: AccountRecords
  readonly removed: readonly string[]
  readonly tokens: readonly AdminToken[] | null
  readonly decisions: readonly Decision[] | null
}

/** They may change while the thread runs. */
export type ControlSettings = {
  readonly pepper: string | null
  /** The digests of `auth.keys` and `auth.admin`, in every form. */
  readonly configured: readonly string[]
  readonly auditDays: number
  readonly file: FileAccounts
}

/** `snapshot`: a copy of what the serving process needs is kept in the data folder, for starts without the database. */
export type SharedControl = SharedDatabase & { readonly snapshot: boolean }

/** Where the records are: in the shared database, or in `control.db` in the folder. */
export type ControlPlace = {
  readonly folder: string
  readonly database: SharedControl | null
}

export type ControlThreadOptions = ControlPlace & {
  readonly settings: ControlSettings
  /** The last change that the client has applied; null: none, so that the first message contains everything. */
  readonly since: number | null
  /** There was a file, or it could not be found out: a missing one is lost, and not created. */
  readonly isKnown: boolean
  /** It had client keys. */
  readonly hasKeys: boolean
}

export type AskedOperation = { readonly operation: ControlOperation; readonly context: ControlContext }

/** ID of a key, and the start of the hour of its last use in ms since 1970. */
export type KeyUse = readonly [id: string, hour: number]

export type ControlEvents = {
  readonly changed: AccountsChange
  readonly complete: StoredAccounts
  /** `problem` contains no path; null: the database works. `isLost`: its file is missing, or cannot be opened. */
  readonly state: { readonly problem: string | null; readonly isLost: boolean }
  /** Why the snapshot cannot be written, without a path; null: it is written again. */
  readonly snapshot: string | null
}
