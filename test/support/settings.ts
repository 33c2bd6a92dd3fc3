import { type Settings, settingsSchema } from '../../src/core/settings.ts'

/** What holds where nothing is set. */
export const defaultSettings: Settings = settingsSchema.parse({})
