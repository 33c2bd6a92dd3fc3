/** ms by which the timers of an idle process are late at most. */
const MAX_DELAY = 10

/**
 * Runs a function after `ms`, to give up waiting for an answer. While this process is busy, an answer that has arrived is not
 * read, and a question may not even have been sent: then it waits again.
 */
export const afterIdle = (ms: number, run: () => void): NodeJS.Timeout => {
  let due = performance.now() + ms
  const timer = setTimeout(() => {
    const late = performance.now() - due
    due = performance.now() + ms
    if (late > MAX_DELAY) timer.refresh()
    else setImmediate(run)
  }, ms)
  return timer
}
