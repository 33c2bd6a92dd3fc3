/** What a test knows of the lane it runs in: variables that `scripts/test.ts` sets. */

/** Set by `npm run test:long`. */
export const LONG_VARIABLE = 'HEADGATE_LONG'
/** Set by `npm test` without a path. */
export const QUICK_VARIABLE = 'HEADGATE_QUICK'

/** Whether long tests run in full. Otherwise they check a fixed part, in seconds. */
export const isLong: boolean = process.env[LONG_VARIABLE] === '1'
/** Whether only the quick lane runs, which takes SQLite where a test has several engines. */
export const isQuick: boolean = process.env[QUICK_VARIABLE] === '1'
