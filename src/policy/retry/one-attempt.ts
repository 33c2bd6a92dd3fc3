/** Calls of the gateway's own, such as copies for a shadow and live checks, have one attempt. */
import type { Settings } from '../../core/settings.ts'

/** Settings with which a call is sent once, to one target. */
export const oneAttempt = (settings: Settings): Settings => ({
  ...settings,
  fallback: 'none',
  retry: { ...settings.retry, maxAttempts: 1, sameModelWait: 0 },
  hedge: { ...settings.hedge, percent: 0 },
})
