/** Answers calls from tapes, or records them. One for the process; loaded only if `HEADGATE_TAPE` is set. */
import { basename, join } from 'node:path'
import { FaultCounter } from '../../suite/faults.ts'
import { fail } from '../core/failure.ts'
import type { HeaderLookup } from '../core/headers.ts'
import type { TapeState } from '../core/tape-state.ts'
import type { InboundRequest } from '../gateway/upstream/outbound-request.ts'
import type { Tape, TapedCall } from '../gateway/upstream/tape.ts'
import type { MaskedAsk } from './ask.ts'
import type { Normaliser } from './masking.ts'
import { countText, missRecord, missText, nearestTo } from './miss.ts'
import { secretSearch } from './secrets.ts'
import { nameOf, type TapedExchange } from './tape-file.ts'
import { type LoadedTape, TAPE_NAME, TapeFolder } from './tape-folder.ts'
import { ChatTape, JsonTape, type RecordedExchange, type TapeAccess, type TapePlace } from './taped-call.ts'

export type TapesOptions = TapeAccess['options'] & {
  /** Values that no tape may have. */
  readonly secrets: () => Iterable<string>
  /** Receives misses, and exchanges that are not recorded. */
  readonly report: (problem: { readonly kind: 'miss' | 'not_recorded'; readonly message: string }) => void
}

export class Tapes implements Tape, TapeAccess {
  readonly options: TapesOptions
  readonly folder: TapeFolder
  readonly faults = new FaultCounter()
  readonly #taken = new Map<string, number>()
  readonly #used = new Map<string, Set<string>>()
  /** Series that this run has begun to record. */
  readonly #begun = new Set<string>()
  readonly #count = { replayed: 0, recorded: 0, misses: 0, failed: 0 }
  #lastMiss: string | null = null

  constructor(options: TapesOptions) {
    this.options = options
    this.folder = new TapeFolder(options.settings.folder)
    this.folder.clearMisses()
  }

  /** Whether something that was to be recorded is not on a tape. */
  get hasFailed(): boolean {
    return this.#count.failed > 0
  }

  chat(inbound: InboundRequest): TapedCall {
    return new ChatTape(this, inbound)
  }

  json(headers: HeaderLookup): TapedCall {
    return new JsonTape(this, headers)
  }

  /** The tape and the test that a request names. A text: the problem of its header. */
  placeOf(headers: HeaderLookup): TapePlace | string {
    const written = headers('x-headgate-tape')
    if (written === undefined) return { name: this.options.settings.name, test: '' }
    const [name = '', ...parameters] = written.split(';').map((part) => part.trim())
    const [parameter, ...others] = parameters
    const test = parameter?.startsWith('test=') ? parameter.slice('test='.length) : undefined
    const isRight = (name === '' || TAPE_NAME.test(name)) && others.length === 0
    if (!isRight || (parameter !== undefined && (test === undefined || test.length > 200)))
      return 'x-headgate-tape is not NAME; test=ID. A name has up to 64 letters, digits, dots, - and _.'
    return { name: name === '' ? this.options.settings.name : name, test: test ?? '' }
  }

  /** The normalisers of a tape: those of its first line, or for a new one those of the settings. */
  normaliseOf(name: string): readonly Normaliser[] {
    const { bytes, normalise } = this.folder.open(name)
    return bytes === 0 ? this.options.settings.normalise : normalise
  }

  /** The next exchange of a request. Null: there is none. */
  peek(key: string, { name, test }: TapePlace): TapedExchange | null {
    const list = recordedOf(this.folder.open(name), key, test)
    const at = this.#takenOf(key, { name, test })
    const isLastRepeated = this.options.settings.mode === 'replay'
    return list[isLastRepeated ? Math.min(at, list.length - 1) : at] ?? null
  }

  /** The same, which is then used up. */
  take(key: string, place: TapePlace): TapedExchange | null {
    const found = this.peek(key, place)
    // A miss is not counted: each has another key.
    if (!found) return null
    this.#taken.set(seriesName(key, place), this.#takenOf(key, place) + 1)
    this.#use(place.name, found)
    this.#count.replayed++
    return found
  }

  #takenOf(key: string, place: TapePlace): number {
    return this.#taken.get(seriesName(key, place)) ?? 0
  }

  #use(name: string, { digest }: TapedExchange): void {
    const used = this.#used.get(name) ?? new Set()
    this.#used.set(name, used.add(digest))
  }

  /** The exchange that was taken last is the next one again: its attempt did not receive the answer. */
  giveBack(key: string, place: TapePlace): void {
    this.#taken.set(seriesName(key, place), Math.max(0, this.#takenOf(key, place) - 1))
    this.#count.replayed--
  }

  /** Records an exchange, or reports why not. */
  record(place: TapePlace, { media }: Pick<MaskedAsk, 'media'>, exchange: RecordedExchange): void {
    const { key } = exchange
    const series = seriesName(key, place)
    const { credentials, texts, ...own } = exchange
    // The listener of the answer waits: nothing may throw here.
    try {
      const isFirst = this.options.settings.mode === 'record' && !this.#begun.has(series)
      this.#begun.add(series)
      const replaces = isFirst && recordedOf(this.folder.open(place.name), key, place.test).length > 0
      const at = new Date(this.options.world.date()).toISOString()
      const search = secretSearch([...this.options.secrets(), ...credentials])
      this.folder.append(
        place.name,
        { ...own, test: place.test, at, replaces },
        {
          normalise: this.normaliseOf(place.name),
          media,
          check(lines) {
            if ([lines, ...texts, ...media.values()].some(search))
              throw new Error('It has a credential or a configured secret. Remove it from the request.')
          },
        },
      )
      this.#count.recorded++
      const added = this.folder
        .open(place.name)
        .byKey.get(key)
        ?.findLast((one) => one.test === place.test && one.at === at)
      if (added) this.#use(place.name, added)
    } catch (error) {
      this.notRecorded(nameOf(exchange), error)
    }
  }

  notRecorded(what: string, error: unknown): void {
    this.#count.failed++
    const reason = error instanceof Error ? error.message : String(error)
    this.options.report({ kind: 'not_recorded', message: `${what} is not recorded. ${reason}` })
  }

  /** Ends an attempt whose request is not recorded. */
  miss(
    { ask }: Pick<MaskedAsk, 'ask'>,
    place: TapePlace,
    { style, key }: { readonly style: string; readonly key: string },
  ) {
    const tape = this.folder.open(place.name)
    const at = new Date(this.options.world.date()).toISOString()
    const recorded = recordedOf(tape, key, place.test).length
    const nearest = recorded > 0 ? null : nearestTo(ask, tape.exchanges)
    const asked = this.#takenOf(key, place) + 1
    const hasSecret = secretSearch(this.options.secrets())
    // The model is a text of the client too.
    const mayShow = !hasSecret(JSON.stringify([ask.model, nearest?.differences ?? []]))
    const different = mayShow ? missText(nearest, ask) : 'What differs has a configured secret, and is not shown.'
    const repeated = `${nameOf({ key })} is recorded ${recorded} times, and this is request ${asked}.`
    const [problem] = tape.problems
    const broken = problem ? ` Line ${problem.line} cannot be used: ${problem.message}.` : ''
    const reason = recorded > 0 ? repeated : different
    const message = `Tape miss: ${style}, ${countText(ask.messages.length)}, ${join(basename(this.folder.path), `${place.name}.jsonl`)}. ${reason}${broken}`
    this.#count.misses++
    this.#lastMiss = message
    this.options.report({ kind: 'miss', message })
    const more = { at, tape: place.name, test: place.test, key, message }
    this.folder.addMiss(mayShow ? missRecord(ask, nearest, more) : more)
    return fail('tape_miss', message)
  }

  state(): TapeState {
    const { mode, folder, name, normalise } = this.options.settings
    const tapes = this.folder.names().map((each) => {
      const { exchanges, bytes, problems } = this.folder.open(each)
      const used = this.#used.get(each)?.size ?? 0
      const lines = problems.map(({ line, message }) => `line ${line}: ${message}`)
      return { name: each, exchanges: exchanges.length, used, bytes, problems: lines }
    })
    return { mode, folder, name, normalise, ...this.#count, last_miss: this.#lastMiss, tapes }
  }

  /** Writes what this run has used, for `headgate tape`. */
  close(): void {
    const used = Object.fromEntries([...this.#used].map(([name, lines]) => [name, [...lines]]))
    const { tapes: _, ...state } = this.state()
    this.folder.writeRun({ ...state, normalise: [...state.normalise], used })
  }
}

/** The equal requests of a test on a tape, whose exchanges are taken in order. */
const seriesName = (key: string, { name, test }: TapePlace): string => `${name} ${test} ${key}`

/** The exchanges of a request in order: those of its test, else those of none, else those of the first test. */
const recordedOf = ({ byKey }: LoadedTape, key: string, test: string): readonly TapedExchange[] => {
  const all = byKey.get(key) ?? []
  const of = (wanted: string | undefined) => all.filter((exchange) => exchange.test === wanted)
  const own = of(test)
  if (own.length > 0) return own
  const common = of('')
  return common.length > 0 ? common : of(all[0]?.test)
}
