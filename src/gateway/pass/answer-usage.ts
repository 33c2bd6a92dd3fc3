/** Reads the usage of a passed answer where its path is one of a format that the gateway knows, without changing it. */
import type { UnitCount, Usage } from '../../core/chat.ts'
import type { Instance, ProtocolSupport } from '../../core/provider.ts'
import { protocolOf } from '../../protocols/index.ts'
import type { AttemptSource } from '../accounts/open-attempt.ts'
import type { OutputSample } from '../accounts/token-usage.ts'
import { AnswerFacts } from '../upstream/answer-facts.ts'
import { type AnswerBodyReader, type ResponseHead, readerFor } from '../upstream/body-reader.ts'

/** A call at the path of a format. `model`: null: the body names it. */
export type KnownFormat = { readonly support: ProtocolSupport; readonly model: string | null; readonly stream: boolean }

/** The format of a path below the base URL of an instance; null: it is not known. */
export const formatAt = (
  { speaks, provider }: Pick<Instance, 'speaks' | 'provider'>,
  below: string,
): KnownFormat | null => {
  for (const support of [...speaks, ...provider.speaks, ...(provider.alsoSpeaks ?? [])]) {
    const { path, streamPath } = { ...protocolOf(support), ...support }
    for (const [one, stream] of [
      [path, false],
      [streamPath, true],
    ] as const) {
      const [before = '', after] = one?.split('?', 1)[0]?.split('{model}') ?? []
      if (one === undefined || !below.startsWith(before)) continue
      if (after === undefined ? below === before : below.endsWith(after) && below.length > before.length + after.length)
        return {
          support,
          stream,
          model:
            after === undefined ? null : decodeURIComponent(below.slice(before.length, below.length - after.length)),
        }
    }
  }
  return null
}

/** A call whose usage is not known. */
const ONE_CALL: UnitCount = { unit: 'calls', count: 1 }
const UNKNOWN: Usage = { input: 0, output: 0, units: ONE_CALL }

/** What is read of one answer. An answer that cannot be read is passed on all the same. */
export class AnswerUsage implements AttemptSource {
  readonly facts: AnswerFacts
  isFinished = false
  readonly #format: KnownFormat | null
  readonly #date: number
  #reader: AnswerBodyReader | null = null

  /** `date`: ms since 1970. */
  constructor(format: KnownFormat | null, date: number) {
    this.#format = format
    this.#date = date
    this.facts = new AnswerFacts(format && protocolOf(format.support).name)
  }

  /** The usage that the answer states. Without one, that of one call. */
  usage(): Usage | null {
    return this.#format ? this.facts.usage : UNKNOWN
  }

  finished(): boolean {
    return this.isFinished
  }

  output(): OutputSample {
    return this.facts.sample
  }

  model(): string | null {
    return this.facts.model
  }

  begin(head: ResponseHead): void {
    this.facts.status = head.status
    if (!this.#format || head.status >= 300) return
    const protocol = protocolOf(this.#format.support)
    const stream =
      this.#format.stream || /event-stream|octet-stream|eventstream/.test(head.headers('content-type') ?? '')
    this.#reader = readerFor(head, { protocol, quirks: undefined, translated: null, stream, date: this.#date })
  }

  push(chunk: Uint8Array): void {
    this.#read((reader) => reader.push(chunk))
  }

  end(): void {
    this.#read((reader) => reader.end())
  }

  #read(steps: (reader: AnswerBodyReader) => ReturnType<AnswerBodyReader['end']>): void {
    if (!this.#reader) return
    try {
      for (const { events } of steps(this.#reader))
        for (const event of events) {
          if (event.type === 'failure') this.#reader = null
          else if (event.type === 'delta') this.facts.add(event.text)
          else if (event.type === 'usage') this.facts.usage = event.usage
          else if (event.type === 'start') this.facts.start(event)
          else if (event.type === 'finish') this.facts.finish = event
        }
    } catch {
      // A reader that fails stops reading, never the answer: its usage is then estimated.
      this.#reader = null
    }
  }
}
