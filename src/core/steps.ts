/** Divides heavy work into bounded pieces, so that one large request does not block the event loop. */

/** Work in pieces: each `next` runs one piece; the last returns the result. */
export type Steps<T> = Generator<undefined, T, undefined>

/**
 * Runs a piece of work in an event loop turn without other such pieces. `continues`: the piece belongs to work in
 * progress, which precedes new work, so that little work is in progress at once.
 */
export type TurnScheduler = (run: () => void, continues?: boolean) => void

/** Maximum characters or bytes of one piece, about 2 ms of work. Larger bodies are read and written in pieces. */
export const PIECE = 256 * 1024

/** Runs all pieces without a pause and returns the result. */
export const atOnce = <T>(steps: Steps<T>): T => {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

/** Runs each piece in a turn of its own. Rejects if a piece throws. */
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

/** Resolves in a turn of its own: the caller's work until its next `await` is one piece. */
export const ownTurn = (turn: TurnScheduler, continues = false): Promise<void> =>
  new Promise((resolve) => turn(resolve, continues))
