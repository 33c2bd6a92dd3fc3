import type { Settings } from '../../core/settings.ts'
import type { SharedDatabase } from './messages.ts'

/** The shared database of the settings; null: files in the data folder. */
export const sharedDatabase = ({ database: { url, migrate } }: Pick<Settings, 'database'>): SharedDatabase | null =>
  url === undefined ? null : { url, migrate, snapshot: true }
