/** Answers that readers with the same question share: what open pages cost does not grow with their number. */
import type { Outcome } from '../../core/failure.ts'

/** An answer is used again for this many times as long as its query took, so that it costs a third of 1 % of a core at most. */
const REUSE = 300
/** Answers that are kept. */
const MOST = 32

type SharedAnswer = { readonly answer: Promise<Outcome<unknown>>; until: number }

export class SharedAnswers {
  readonly #answers = new Map<string, SharedAnswer>()
  readonly #time: () => number

  /** `time`: a clock in ms. */
  constructor(time: () => number) {
    this.#time = time
  }

  /**
   * `question` names the query and contains all that decides its answer, which is used again for at most `most` ms. `read`
   * reports how long the query took. Failures are not kept.
   */
  get<Value>(
    question: string,
    most: number,
    read: (report: (ms: number) => void) => Promise<Outcome<Value>>,
  ): Promise<Outcome<Value>> {
    const known = this.#answers.get(question)
    // The question has the name of the query, and this its type.
    if (known && this.#time() < known.until) return known.answer as Promise<Outcome<Value>>
    this.#answers.delete(question)
    let ms = 0
    const answer = read((took) => {
      ms = took
    })
    const made: SharedAnswer = { answer, until: Number.POSITIVE_INFINITY }
    this.#answers.set(question, made)
    const [oldest] = this.#answers.keys()
    if (this.#answers.size > MOST && oldest !== undefined) this.#answers.delete(oldest)
    void answer.then(({ ok }) => {
      made.until = ok ? this.#time() + Math.min(most, REUSE * ms) : 0
    })
    return answer
  }
}
