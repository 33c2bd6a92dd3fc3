/** The variable that `npm run test:long` sets. */
export const LONG_VARIABLE = 'HEADGATE_LONG'

/** Whether long tests run in full. Otherwise they check a fixed part, in seconds. */
export const isLong: boolean = process.env[LONG_VARIABLE] === '1'
