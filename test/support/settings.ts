import { type Settings, settingsSchema } from '../../src/core/settings.ts'

/** The settings when nothing is configured. */
export const defaultSettings: Settings = settingsSchema.parse({})
