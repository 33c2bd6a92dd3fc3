/** Maximum size of a configuration file in bytes. Real files have about a hundredth of it. */
export const MAX_FILE = 1_048_576
