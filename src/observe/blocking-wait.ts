/** Waits for a full pipe when the process ends. No other work is left, so the thread may block. */

/** Waits of 1 ms each before giving up. */
export const MAX_WAITS = 200

export const waitMillisecond = (): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
}

/** Whether a write failed because the pipe is full. */
export const isFull = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'EAGAIN'
