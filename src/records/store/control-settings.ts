/** The part of the configuration that the database of keys needs. */
import type { FileAccounts } from '../../core/accounts.ts'
import type { Settings } from '../../core/settings.ts'
import { digestsOf } from '../entities/secret-digest.ts'
import type { ControlSettings } from './record-operations.ts'

export type ControlSources = {
  readonly accounts: FileAccounts
  readonly auth: Pick<Settings['auth'], 'keys' | 'admin' | 'pepper'>
  readonly auditDays: number
}

export const controlSettings = ({ accounts, auth, auditDays }: ControlSources): ControlSettings => {
  const { keys, admin, pepper } = auth
  return {
    file: accounts,
    pepper: pepper ?? null,
    configured: [...keys, ...(admin === undefined ? [] : [admin])].flatMap((secret) => digestsOf(secret, pepper)),
    auditDays,
  }
}
