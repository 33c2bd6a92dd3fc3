/** The name of the ledger's file in the data folder. */
export const USAGE_FILE = 'usage.db'
