import type { Settings } from '../../core/settings.ts'
import { sharedDatabase } from '../../storage/sql/shared-database.ts'
import type { SharedControl } from './record-operations.ts'

/** The shared database of the settings, with a snapshot; null: files in the data folder. */
export const sharedControl = (settings: Pick<Settings, 'database'>): SharedControl | null => {
  const shared = sharedDatabase(settings)
  return shared && { ...shared, snapshot: true }
}
