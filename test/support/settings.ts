import { type Settings, settingsSchema } from '../../src/core/settings.ts'

/** The settings when nothing is configured. */
export const defaultSettings: Settings = settingsSchema.parse({})

/** The settings with this bucket for the export of usage. */
export const exportSettings = (s3: Settings['export']['s3']): Settings => ({ ...defaultSettings, export: { s3 } })
