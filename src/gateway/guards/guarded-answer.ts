/** Passes an answer through the stages of guards, between its decoder and its encoder. */
import type { ChatEvent } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import type { Guard, TextCheck } from '../../core/guard.ts'
import type { ChoiceEvents, StreamStep } from '../../core/protocol.ts'
import type { Sink, Stage } from '../../core/stage.ts'
import type { AnswerStream } from '../upstream/attempt.ts'
import { type CheckedAnswer, HeldAnswer, WatchedAnswer } from './checked-answer.ts'

/** Creates the stages of a choice. */
type MakeStages = (choice: number) => readonly Stage<ChatEvent, ChatEvent>[]

/** How an answer passes the guards. */
export type AnswerGuards = {
  /** Before the stages; null: no guard checks answers. */
  readonly check: TextCheck | null
  /** Creates the stages of one choice. */
  readonly stages: () => readonly Stage<ChatEvent, ChatEvent>[]
}

/** How an answer passes these guards. Null: none of them reads it. */
export const answerGuardsOf = (guards: readonly Guard[]): AnswerGuards | null => {
  const check = guards.find(({ answer }) => answer)?.answer ?? null
  if (!check && !guards.some(({ events }) => events)) return null
  return { check, stages: () => guards.flatMap(({ events }) => events?.() ?? []) }
}

/** Pushes the steps of an answer into the sink, through its guards if there are any. */
export const pipeThrough = (
  guards: AnswerGuards | null,
  answer: Pick<AnswerStream, 'pipeTo' | 'abort'>,
  sink: Sink<readonly StreamStep[]>,
): void => {
  if (!guards) return answer.pipeTo(sink)
  const { check, stages } = guards
  const cancel = () => answer.abort()
  if (!check) return answer.pipeTo(new GuardedSink(stages, sink, cancel))
  const checked: CheckedAnswer = {
    check,
    cancel,
    sink: (changed) =>
      new GuardedSink(
        (choice) => [...(changed ? [changed.texts.changed(changed.edits, choice)] : []), ...stages()],
        sink,
        cancel,
      ),
  }
  answer.pipeTo(check.holds ? new HeldAnswer(checked) : new WatchedAnswer(checked))
}

/** A sink of the guarded answer. Its steps have no frames: only their events have passed the guards. */
class GuardedSink implements Sink<readonly StreamStep[]> {
  readonly #make: MakeStages
  readonly #sink: Sink<readonly StreamStep[]>
  readonly #cancel: () => void
  /** By choice. */
  readonly #choices: ChoiceStages[] = []
  #refusal: Failure | null = null

  /** `cancel`: ends the upstream call when a guard ends the answer. */
  constructor(make: MakeStages, sink: Sink<readonly StreamStep[]>, cancel: () => void) {
    this.#make = make
    this.#sink = sink
    this.#cancel = cancel
  }

  push(steps: readonly StreamStep[]): boolean {
    if (this.#refusal) return true
    const isReady = this.#sink.push(steps.map((step) => this.#guarded(step)))
    if (this.#refusal) {
      this.#cancel()
      this.#sink.end(this.#refusal)
    }
    return isReady
  }

  end(failure?: Failure): void {
    if (this.#refusal) return
    // Text that is held back when an answer breaks is not sent: it may be the beginning of a match.
    if (failure) return this.#sink.end(failure)
    const choices = this.#choices.map((choice, index) => ({ index, events: this.#checked(choice.end()) }))
    const events = choices.flatMap((choice) => choice.events)
    if (events.length > 0) this.#sink.push([choices.length > 1 ? { events, choices } : { events }])
    this.#sink.end(this.#refusal ?? undefined)
  }

  #guarded({ events, choices }: StreamStep): StreamStep {
    if (!choices) return { events: this.#checked(this.#stagesOf(0).push(events)) }
    const guarded = choices.map(({ index, events: own }): ChoiceEvents => {
      return { index, events: this.#checked(this.#stagesOf(index).push(own)) }
    })
    const content = guarded.flatMap(({ events: own }) => own.filter(({ type }) => type !== 'finish'))
    const isBefore = ({ type }: ChatEvent) => type === 'start' || type === 'ping'
    const isAfter = ({ type }: ChatEvent) => type === 'usage' || type === 'finish'
    return { events: [...events.filter(isBefore), ...content, ...events.filter(isAfter)], choices: guarded }
  }

  #stagesOf(index: number): ChoiceStages {
    const known = this.#choices[index]
    if (known) return known
    const made = new ChoiceStages(this.#make(index))
    this.#choices[index] = made
    return made
  }

  /** The events before the refusal of a guard, after which nothing is sent. */
  #checked(events: readonly ChatEvent[]): readonly ChatEvent[] {
    if (this.#refusal) return []
    const at = events.findIndex(({ type }) => type === 'failure')
    const event = events[at]
    if (event?.type !== 'failure') return events
    this.#refusal = event.failure
    return events.slice(0, at)
  }
}

/** The stages of one choice, one after the other. */
class ChoiceStages {
  readonly #stages: readonly Stage<ChatEvent, ChatEvent>[]

  constructor(stages: readonly Stage<ChatEvent, ChatEvent>[]) {
    this.#stages = stages
  }

  push(events: readonly ChatEvent[]): readonly ChatEvent[] {
    return this.#stages.reduce<readonly ChatEvent[]>(
      (before, stage) => before.flatMap((one) => stage.push(one)),
      events,
    )
  }

  end(): readonly ChatEvent[] {
    return this.#stages.reduce<readonly ChatEvent[]>(
      (before, stage) => [...before.flatMap((one) => stage.push(one)), ...stage.end()],
      [],
    )
  }
}
