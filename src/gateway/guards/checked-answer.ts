/** Passes an answer through checks that take time: it is held back until their verdict, or followed by it. */
import { type Failure, fail } from '../../core/failure.ts'
import type { AnswerEdit, AnswerVerdict, TextCheck } from '../../core/guard.ts'
import type { StreamStep } from '../../core/protocol.ts'
import type { Sink } from '../../core/stage.ts'
import { AnswerTexts } from '../../policy/guards/answer-texts.ts'

/** Where an answer goes after its check. `edits`: changes of its texts. */
export type CheckedSink = (
  edits: { readonly texts: AnswerTexts; readonly edits: readonly AnswerEdit[] } | null,
) => Sink<readonly StreamStep[]>

export type CheckedAnswer = {
  readonly check: TextCheck
  readonly sink: CheckedSink
  /** Ends the upstream call. */
  readonly cancel: () => void
}

/** Characters of the longest answer that is checked. */
const LONGEST = 8 * 1024 * 1024

const TOO_LONG = fail(
  'guardrail_blocked',
  `The answer is too long to be checked (limit ${LONGEST / 1024 / 1024} Mi characters). Ask for less in one request.`,
)
const BROKEN = fail('internal', 'Internal gateway error: this answer could not be checked.')

const collect = (texts: AnswerTexts, steps: readonly StreamStep[]): void => {
  for (const { events, choices } of steps)
    if (choices) for (const choice of choices) texts.push(choice.index, choice.events)
    else texts.push(0, events)
}

/** What is checked never rejects; a bug refuses the answer. */
const verdictOn = (check: TextCheck, texts: AnswerTexts, final: boolean): Promise<AnswerVerdict | null> =>
  check.read(texts.list(), final).catch(() => ({ refuse: BROKEN }))

/** Holds an answer back until its verdict. Keep-alives of the client's side go on. */
export class HeldAnswer implements Sink<readonly StreamStep[]> {
  readonly #answer: CheckedAnswer
  readonly #texts = new AnswerTexts()
  readonly #steps: StreamStep[] = []
  #isOver = false

  constructor(answer: CheckedAnswer) {
    this.#answer = answer
  }

  push(steps: readonly StreamStep[]): boolean {
    if (this.#isOver) return true
    for (const step of steps) this.#steps.push(step)
    collect(this.#texts, steps)
    if (this.#texts.length <= LONGEST) return true
    this.#isOver = true
    this.#answer.cancel()
    this.#answer.sink(null).end(TOO_LONG)
    return true
  }

  end(failure?: Failure): void {
    if (this.#isOver) return
    this.#isOver = true
    // What was held back of an answer that breaks has not been checked.
    if (failure) this.#answer.sink(null).end(failure)
    else void verdictOn(this.#answer.check, this.#texts, true).then((verdict) => this.#release(verdict))
  }

  #release(verdict: AnswerVerdict | null): void {
    if (verdict && 'refuse' in verdict) return this.#answer.sink(null).end(verdict.refuse)
    const sink = this.#answer.sink(verdict && { texts: this.#texts, edits: verdict.edits })
    sink.push(this.#steps)
    sink.end()
  }
}

/** Characters after which an answer in progress is checked again. */
const STRIDE = 2_000

/** Passes an answer on while it is checked, and ends it when something is found. Its end waits for the last verdict. */
export class WatchedAnswer implements Sink<readonly StreamStep[]> {
  readonly #answer: CheckedAnswer
  readonly #sink: Sink<readonly StreamStep[]>
  readonly #texts = new AnswerTexts()
  /** From the finish on. */
  readonly #last: StreamStep[] = []
  #checked = 0
  #checking: Promise<void> | null = null
  #isOver = false

  constructor(answer: CheckedAnswer) {
    this.#answer = answer
    this.#sink = answer.sink(null)
  }

  push(steps: readonly StreamStep[]): boolean {
    if (this.#isOver) return true
    collect(this.#texts, steps)
    if (this.#texts.length > LONGEST) {
      this.#stop(TOO_LONG)
      return true
    }
    if (this.#texts.length - this.#checked >= STRIDE && !this.#checking) this.#check()
    const isLast = this.#last.length > 0 || steps.some(({ events }) => events.some(({ type }) => type === 'finish'))
    if (!isLast) return this.#sink.push(steps)
    for (const step of steps) this.#last.push(step)
    return true
  }

  end(failure?: Failure): void {
    if (this.#isOver) return
    if (failure) {
      this.#isOver = true
      this.#sink.end(failure)
    } else void this.#finish()
  }

  #check(): void {
    this.#checked = this.#texts.length
    this.#checking = verdictOn(this.#answer.check, this.#texts, false).then((verdict) => {
      this.#checking = null
      if (verdict && 'refuse' in verdict) this.#stop(verdict.refuse)
    })
  }

  #stop(failure: Failure): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#answer.cancel()
    this.#sink.end(failure)
  }

  async #finish(): Promise<void> {
    await this.#checking
    const verdict = this.#isOver ? null : await verdictOn(this.#answer.check, this.#texts, true)
    if (this.#isOver) return
    this.#isOver = true
    if (verdict && 'refuse' in verdict) return this.#sink.end(verdict.refuse)
    this.#sink.push(this.#last)
    this.#sink.end()
  }
}
