/** Errors of SQLite and of the file system. Imports nothing, so that the event loop can use it without loading SQLite. */

/** SQLite's message, or the file system's error code: its message contains the path, which `/health` must not show. */
export const problemOf = (error: unknown): string => {
  if (!(error instanceof Error)) return 'unknown error'
  return 'syscall' in error && 'code' in error ? `${error.code} (${error.syscall})` : error.message
}

/** SQLite's primary result codes (https://sqlite.org/rescode.html). */
const codeOf = (error: unknown): number =>
  error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' ? error.errcode & 0xff : 0

/** Another connection holds the lock. */
export const isBusy = (error: unknown): boolean => codeOf(error) === 5 || codeOf(error) === 6

/** The disk is full. */
export const isFull = (error: unknown): boolean => codeOf(error) === 13
