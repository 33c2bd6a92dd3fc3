/** The secrets of client keys in the file: each key has its own. */
import type { ClientKey, KeySecret } from '../core/accounts.ts'
import type { Settings } from '../core/settings.ts'
import { isWellFormedKey, keyKindOf, last4 } from '../policy/accounts/client-key.ts'
import type { KeyEntry } from '../records/entities/key.ts'
import { digestsOf, storedDigest } from '../records/entities/secret-digest.ts'
import type { AccountReport, Path } from './account-report.ts'
import type { AccountValues } from './account-values.ts'
import { quote } from './problem.ts'

const MIN_SECRET = 20

/** A secret that cannot be used is refused in the report. */
export class AccountSecrets {
  readonly #report: AccountReport
  readonly #values: AccountValues
  readonly #auth: Pick<Settings['auth'], 'keys' | 'admin' | 'pepper'>

  constructor(report: AccountReport, values: AccountValues, auth: Pick<Settings['auth'], 'keys' | 'admin' | 'pepper'>) {
    this.#report = report
    this.#values = values
    this.#auth = auth
  }

  secretsOf({ secret, digest, secrets, createdAt }: KeyEntry, path: Path): readonly KeySecret[] {
    const given = [secret, digest, secrets].filter((one) => one !== undefined).length
    if (given !== 1) {
      const found = given === 0 ? 'neither digest nor secret' : 'more than one of digest, secret and secrets'
      this.#report.refuse(path, found, 'one of digest, secret or secrets', 'name')
      return []
    }
    const created = this.#values.instant(createdAt, [...path, 'createdAt']) ?? 0
    const { pepper } = this.#auth
    if (secret !== undefined) {
      this.#checkSecret(secret, [...path, 'secret'])
      return [{ digest: storedDigest(secret, pepper), last4: last4(secret), createdAt: created, until: null }]
    }
    const list = secrets ?? [{ digest: digest ?? '' }]
    return list.map((one, index) => {
      const own = secrets === undefined ? path : [...path, 'secrets', index]
      if (one.digest.startsWith('h1:') && pepper === undefined)
        this.#report.refuse(
          [...own, 'digest'],
          'a digest with pepper (h1:)',
          'a digest that begins with s1:, or auth.pepper',
        )
      return {
        digest: one.digest,
        last4: 'last4' in one ? (one.last4 ?? '') : '',
        createdAt: ('createdAt' in one ? this.#values.instant(one.createdAt, [...own, 'createdAt']) : null) ?? created,
        until: 'until' in one ? this.#values.instant(one.until, [...own, 'until']) : null,
      }
    })
  }

  #checkSecret(secret: string, path: Path): void {
    const kind = keyKindOf(secret)
    if (kind === 'admin') this.#report.refuse(path, 'an admin token (hga_)', 'a client key')
    else if (kind === 'client' && !isWellFormedKey(secret))
      this.#report.refuse(
        path,
        'a key that begins with hgk_ and has a wrong checksum',
        'the key as it was created; it may be mistyped',
      )
    else if (secret.length < MIN_SECRET || !/^[\x21-\x7e]+$/.test(secret))
      this.#report.refuse(
        path,
        'a key that is too short or has unusual characters',
        `at least ${MIN_SECRET} printable ASCII characters without spaces; create one with headgate keys create`,
      )
  }

  refuseShared(keys: readonly ClientKey[]): void {
    const owners = new Map<string, ClientKey>()
    for (const key of keys)
      for (const { digest } of key.secrets) {
        const owner = owners.get(digest)
        if (owner && owner.id !== key.id)
          this.#report.refuse(
            ['keys', key.name],
            `the same secret as the key ${quote(owner.name)}`,
            'another secret for each key',
            'name',
          )
        owners.set(digest, key)
      }
  }

  /**
   * A secret that a key of the database or of the environment has too. No reason to refuse the file: others write the
   * database, and must not be able to prevent a start. `KeyIndex` decides which one counts.
   */
  warnOfTaken(keys: readonly ClientKey[], stored: readonly ClientKey[]): void {
    if (keys.length === 0) return
    const { keys: configured, admin, pepper } = this.#auth
    const owners = new Map<string, string>()
    for (const { id, name, secrets } of stored)
      for (const { digest } of secrets)
        owners.set(digest, `the key ${quote(name)} of the database (${id}), which has no effect. Revoke that key`)
    const own = (secret: string, setting: string) => {
      for (const digest of digestsOf(secret, pepper))
        owners.set(digest, `${setting}, which takes precedence. Give the key another secret`)
    }
    for (const secret of configured) own(secret, 'auth.keys')
    if (admin !== undefined) own(admin, 'auth.admin')
    for (const { id, name, secrets } of keys)
      for (const { digest } of secrets) {
        const owner = owners.get(digest)
        if (owner === undefined || owner.includes(`(${id})`)) continue
        const where = this.#report.placeOf(['keys', name]).name
        this.#report.warn(`${where}: the key ${quote(name)} has the same secret as ${owner}.`)
      }
  }
}
