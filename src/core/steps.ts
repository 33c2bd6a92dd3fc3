/** Heavy work in bounded pieces, so that one large request does not keep the event loop from the others. */

/** Work in pieces: each `next` does one, and the last returns the result. */
export type Steps<T> = Iterator<undefined, T, undefined>

/**
 * Runs a piece of work in a turn of the event loop in which no other such piece runs. `continues`: it is the rest of work
 * in progress and precedes work that has not begun, so that little is in progress at once.
 */
export type TurnScheduler = (run: () => void, continues?: boolean) => void

/** Characters or bytes that one piece handles at most, in about 2 ms; a body of more is read and written in pieces. */
export const PIECE = 256 * 1024

/** The result without a pause. */
export const atOnce = <T>(steps: Steps<T>): T => {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

/** The result, with each piece in a turn of its own. Rejects with what a piece throws. */
export const inTurns = <T>(steps: Steps<T>, turn: TurnScheduler): Promise<T> =>
  new Promise((resolve, reject) => {
    const run = (): void => {
      try {
        const step = steps.next()
        if (step.done) resolve(step.value)
        else turn(run)
      } catch (error) {
        reject(error)
      }
    }
    turn(run)
  })

/** Resolves in a turn of its own: what the caller does up to its next `await` is one piece. */
export const ownTurn = (turn: TurnScheduler, continues = false): Promise<void> =>
  new Promise((resolve) => turn(resolve, continues))
