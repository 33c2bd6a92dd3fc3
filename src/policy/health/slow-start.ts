/**
 * After an outage: how fast a circuit that has just closed is given its whole load back. Whoever comes up again with cold
 * caches and new processes would be crushed by everybody at once. Pure; times in ms.
 */

const STEPS = 10

/**
 * How long after the closing one more request may be under way beside these: one at once from the start, twice as many
 * after each tenth of the span, as many as there are after all of it. One request after another never waits.
 */
export const warmUpDelay = (underWay: number, span: number): number =>
  underWay < 1 ? 0 : (Math.min(STEPS, 32 - Math.clz32(underWay)) * span) / STEPS
