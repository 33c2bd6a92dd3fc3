/**
 * Slow start: how fast the load of a circuit increases after it closed. An upstream that restarts with cold caches would
 * fail again under full load. Pure; times in ms.
 */

const STEPS = 10

/**
 * The time in ms after closing at which one more request may be in flight. One is allowed at once; the number doubles after
 * each tenth of `span`, and is unlimited after all of it.
 */
export const warmUpDelay = (inFlight: number, span: number): number =>
  inFlight < 1 ? 0 : (Math.min(STEPS, 32 - Math.clz32(inFlight)) * span) / STEPS
