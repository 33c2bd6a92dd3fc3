/**
 * Everything that can be set, one by one. The build writes these down as they are (`scripts/build.ts`): to make them of the
 * schemas is a tenth of a start.
 */
import { settingsSchema } from '../../core/settings.ts'
import { jsonSchemaOf, launchSchema, type Row, rowsOf } from './definition.ts'

export const settingRows: readonly Row[] = rowsOf(jsonSchemaOf(settingsSchema))
export const launchRows: readonly Row[] = rowsOf(jsonSchemaOf(launchSchema))
