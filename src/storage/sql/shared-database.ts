import type { Settings } from '../../core/settings.ts'

/** The Postgres database that several gateways share. */
export type SharedDatabase = {
  /** It contains a password: never part of a message. */
  readonly url: string
  /** Where reports are read, such as a replica; absent: in the database itself. */
  readonly readUrl?: string | undefined
  /** `never`: the tables are created and upgraded by `headgate db migrate` only. */
  readonly migrate: 'auto' | 'never'
}

/** The shared database of the settings; null: files in the data folder. */
export const sharedDatabase = ({
  database: { url, readUrl, migrate },
}: Pick<Settings, 'database'>): SharedDatabase | null => (url === undefined ? null : { url, readUrl, migrate })
