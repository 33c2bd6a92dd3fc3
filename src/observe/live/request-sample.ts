/** Usual requests a second, and at once after a pause, that are events for clients that want a sample. */
const SAMPLE = 50

/** Chooses the usual requests that are events for clients that want a sample. */
export class RequestSample {
  #places = SAMPLE
  #since = 0

  /** Whether a usual request is one of the sample. */
  take(now: number): boolean {
    // The clock may have been set back.
    const passed = Math.max(0, now - this.#since)
    this.#since = now
    this.#places = Math.min(SAMPLE, this.#places + (passed * SAMPLE) / 1_000)
    if (this.#places < 1) return false
    this.#places--
    return true
  }
}
