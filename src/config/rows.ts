/**
 * All settings as rows. The build replaces this file with the computed rows (`scripts/build.ts`), since deriving them from
 * the schemas takes a tenth of the start.
 */
import { settingsSchema } from '../core/settings.ts'
import { jsonSchemaOf, launchSchema, rowsOf, type SettingRow } from './definition.ts'

export const settingRows: readonly SettingRow[] = rowsOf(jsonSchemaOf(settingsSchema))
export const launchRows: readonly SettingRow[] = rowsOf(jsonSchemaOf(launchSchema))
