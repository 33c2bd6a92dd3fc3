import type { World } from './world.ts'

/**
 * Waits for a promise that does not reject, at most so many ms (null: as long as it takes). Without a promise it waits for the time.
 * Returns whether it has resolved in time.
 */
export const within = (later: World['later'], ms: number | null, promise: Promise<unknown> | null): Promise<boolean> =>
  new Promise((resolve) => {
    const cancel = ms === null ? () => {} : later(Math.max(0, ms), () => resolve(false))
    void promise?.then(() => {
      cancel()
      resolve(true)
    })
  })
