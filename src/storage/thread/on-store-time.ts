/** Reports that an operation of a database took so long, in ms, with the wait for its thread. */
export type OnStoreTime = (op: string, ms: number) => void
