import type { Settings } from '../../core/settings.ts'

/** The Postgres database in which several gateways store their usage. */
export type SharedDatabase = {
  /** It contains a password: never part of a message. */
  readonly url: string
  /** `never`: the tables are created and upgraded by `headgate db migrate` only. */
  readonly migrate: 'auto' | 'never'
}

/** Null: usage is in `usage.db` of the data folder. */
export const sharedDatabase = ({ database: { url, migrate } }: Pick<Settings, 'database'>): SharedDatabase | null =>
  url === undefined ? null : { url, migrate }
