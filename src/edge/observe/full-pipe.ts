/** A pipe that is full, at the end of a process: nothing else is left to run, so the thread itself may wait. */

/** Turns of waiting, a millisecond each. */
export const PATIENCE = 200

export const waitTurn = (): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
}

/** Whether this is what a write to one throws. */
export const isFull = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'EAGAIN'
