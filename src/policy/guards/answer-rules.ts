/** Applies rules to an answer, as a stage between its decoder and its encoder. */
import type { Block, ChatEvent } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import type { GuardRule } from '../../core/guard.ts'
import type { RuleVerdict } from '../../core/guard-verdict.ts'
import { isList, isObject, readJson } from '../../core/json.ts'
import type { Stage } from '../../core/stage.ts'
import { type AnswerChange, changedCitation, changedObject, changedValue, ShiftedOffsets } from './answer-values.ts'
import { merged } from './finders/find-texts.ts'
import { labelOf, refusalOf } from './guard-labels.ts'
import { type DecidedPiece, PieceSearch, type RuleSearch, type RuleSpan } from './piece-search.ts'

export type AnswerRulesOptions = {
  readonly rules: readonly RuleSearch<GuardRule>[]
  readonly note: (verdict: RuleVerdict) => void
  /** In ms, of the monotonic clock. */
  readonly now: () => number
}

type Rules = readonly RuleSearch<GuardRule>[]
type Spans = readonly RuleSpan<GuardRule>[]
type AnswerPiece = DecidedPiece<GuardRule>

/** `hold`: rules that refuse or change such a block, so that its text is held back. `watch`: those that only state what they find. */
type BlockRules = { readonly hold: Rules; readonly watch: Rules }

/** Characters of the longest arguments of one call that are searched. */
const LONGEST_ARGUMENTS = 8 * 1024 * 1024

/**
 * The rules for one choice. Text is held back while a match may be open; arguments of a tool are held until they are complete, if a
 * rule refuses or changes them. Masks of rules with `tools` only are in arguments, and none in reasoning, because clients execute the
 * former, and the signature of the latter is valid for its text only.
 */
export class AnswerRules implements Stage<ChatEvent, ChatEvent> {
  readonly #options: AnswerRulesOptions
  readonly #text: BlockRules
  readonly #calls: BlockRules
  readonly #reasoning: BlockRules
  #held: PieceSearch<GuardRule> | null = null
  #watched: PieceSearch<GuardRule> | null = null
  /** The arguments so far; null: the open block is no call with JSON. */
  #arguments: string[] | null = null
  #argumentsLength = 0
  #offsets = new ShiftedOffsets()
  #isOver = false

  constructor(options: AnswerRulesOptions) {
    this.#options = options
    this.#text = divided(options.rules, () => true)
    this.#calls = divided(options.rules, ({ tools }) => tools)
    this.#reasoning = divided(options.rules, () => false)
    this.#search(this.#text)
  }

  push(event: ChatEvent): readonly ChatEvent[] {
    if (this.#isOver) return []
    switch (event.type) {
      case 'open':
        return this.#ended([...this.end(), ...this.#opened(event.block)])
      case 'delta':
        return this.#ended(this.#arguments ? this.#collected(event, this.#arguments) : this.#read(event))
      case 'citation':
        return this.#ended(
          this.#changed((change) => [{ type: 'citation', citation: changedCitation(event.citation, change) }]),
        )
      // A signature follows the text for which it is valid.
      case 'signature':
      case 'close':
      case 'finish':
        return this.#ended([...this.end(), event])
      default:
        return [event]
    }
  }

  end(): readonly ChatEvent[] {
    if (this.#isOver) return []
    const collected = this.#arguments
    this.#arguments = null
    if (collected) return this.#ended(this.#checkedArguments(collected.join('')))
    const started = this.#options.now()
    const watched = this.#watched?.end()
    if (watched) this.#note(watched.spans, this.#options.now() - started)
    const piece = this.#held?.end()
    return piece && piece.text !== '' ? this.#ended(this.#written(piece, started)) : []
  }

  /** Nothing follows a failure. */
  #ended(events: readonly ChatEvent[]): readonly ChatEvent[] {
    const at = events.findIndex(({ type }) => type === 'failure')
    if (at === -1) return events
    this.#isOver = true
    return events.slice(0, at + 1)
  }

  #search({ hold, watch }: BlockRules): void {
    this.#held = hold.length > 0 ? new PieceSearch(hold) : null
    this.#watched = watch.length > 0 ? new PieceSearch(watch) : null
    this.#offsets = new ShiftedOffsets()
  }

  #opened(block: Block): readonly ChatEvent[] {
    if (block.type === 'tool-call' && block.custom !== true) {
      this.#arguments = []
      this.#argumentsLength = 0
      return [{ type: 'open', block }]
    }
    this.#search(block.type === 'reasoning' ? this.#reasoning : block.type === 'tool-call' ? this.#calls : this.#text)
    if (block.type !== 'foreign') return [{ type: 'open', block }]
    return this.#changed((change) => [{ type: 'open', block: { ...block, raw: changedObject(block.raw, change) } }])
  }

  // ── Text in pieces ───────────────────────────────────────────────────────────────────────────────────────────────

  #read(event: ChatEvent & { type: 'delta' }): readonly ChatEvent[] {
    const { now } = this.#options
    const started = now()
    const watched = this.#watched?.push(event.text)
    if (watched) this.#note(watched.spans, now() - started)
    if (!this.#held) return [event]
    const piece = this.#held.push(event.text)
    if (piece.spans.length === 0 && piece.text === event.text) {
      this.#offsets.add(piece.received)
      return [event]
    }
    return piece.text === '' ? [] : this.#written(piece, started)
  }

  #written(piece: AnswerPiece, started: number): readonly ChatEvent[] {
    const { text, spans, received } = piece
    if (spans.length === 0) {
      this.#offsets.add(received)
      return [{ type: 'delta', text }]
    }
    const refused = spans.find(({ rule }) => rule.action === 'block')
    const before = refused ? spans.filter(({ end }) => end <= refused.start) : spans
    this.#note(refused ? [...before, refused] : spans, this.#options.now() - started)
    // Only the first span has a part that was dropped.
    let dropped = text.length - received
    const shown = masked(refused ? text.slice(0, refused.start) : text, before, (end, by) => {
      this.#offsets.shift(end + received - text.length, by + dropped)
      dropped = 0
    })
    this.#offsets.add(received)
    const delta: readonly ChatEvent[] = shown === '' ? [] : [{ type: 'delta', text: shown }]
    return refused ? [...delta, { type: 'failure', failure: refusalOf(refused.rule, [refused], 'answer') }] : delta
  }

  // ── Whole texts ──────────────────────────────────────────────────────────────────────────────────────────────────

  #collected(event: ChatEvent & { type: 'delta' }, collected: string[]): readonly ChatEvent[] {
    this.#argumentsLength += event.text.length
    if (this.#argumentsLength > LONGEST_ARGUMENTS) return [{ type: 'failure', failure: TOO_LONG }]
    collected.push(event.text)
    return this.#calls.hold.length > 0 ? [] : [event]
  }

  #checkedArguments(source: string): readonly ChatEvent[] {
    const isHeld = this.#calls.hold.length > 0
    return this.#changed((change) => {
      const value = readJson(source)
      let isChanged = false
      const text: AnswerChange['text'] = (before, form) => {
        const after = change.text(before, form)
        isChanged ||= after !== before
        return after
      }
      const after =
        isObject(value) || isList(value)
          ? JSON.stringify(changedValue(value, { ...change, text, isFree: true }))
          : text(source, 'plain')
      return isHeld && source !== '' ? [{ type: 'delta', text: isChanged ? after : source }] : []
    }, this.#calls)
  }

  /** Changes whole texts by all rules, and returns what `write` makes of them, or the refusal of a rule. */
  #changed(
    write: (change: AnswerChange) => readonly ChatEvent[],
    { hold, watch }: BlockRules = this.#text,
  ): readonly ChatEvent[] {
    const { now } = this.#options
    const started = now()
    const all: Spans[number][] = []
    const searches = [...hold, ...watch]
    const text = (source: string): string => {
      const spans = searches.flatMap(({ rule, search }) => search.find(source).map((span) => ({ ...span, rule })))
      for (const span of spans) all.push(span)
      return masked(
        source,
        spans.filter(({ rule }) => hold.some((one) => one.rule === rule)),
      )
    }
    const events = write({ text, offset: (offset) => this.#offsets.moved(offset) })
    if (all.length > 0) this.#note(all, now() - started)
    const refused = all.find(({ rule }) => rule.action === 'block')
    return refused ? [{ type: 'failure', failure: refusalOf(refused.rule, [refused], 'answer') }] : events
  }

  #note(spans: Spans, ms: number): void {
    for (const rule of new Set(spans.map((span) => span.rule))) {
      const counts: Record<string, number> = {}
      for (const span of spans) {
        if (span.rule !== rule) continue
        const label = labelOf(rule, span.kind)
        counts[label] = (counts[label] ?? 0) + 1
      }
      this.#options.note({ guard: rule.name, phase: 'answer', action: rule.action, counts, ms })
    }
  }
}

/** Divides rules by what they do with a block. `isMasked`: whether a rule which masks does so here. */
const divided = (rules: Rules, isMasked: (rule: GuardRule) => boolean): BlockRules => {
  const acts = ({ rule }: Rules[number]) => rule.action === 'block' || (rule.action === 'mask' && isMasked(rule))
  return { hold: rules.filter(acts), watch: rules.filter((one) => !acts(one)) }
}

/** The text with `[EMAIL]` in place of each span. `replaced` receives the end of the span, and by how much the text became longer. */
const masked = (text: string, spans: Spans, replaced?: (end: number, by: number) => void): string => {
  let out = ''
  let from = 0
  for (const { start, end, rule, kind } of merged(spans)) {
    const mask = `[${labelOf(rule, kind)}]`
    replaced?.(end, mask.length - (end - start))
    out += text.slice(from, start) + mask
    from = end
  }
  return from === 0 ? text : out + text.slice(from)
}

const TOO_LONG = fail(
  'guardrail_blocked',
  `The arguments of a tool call are too long to be searched (limit ${LONGEST_ARGUMENTS / 1024 / 1024} Mi characters). Ask for less in one call.`,
)
