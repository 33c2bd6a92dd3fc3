/** Replaces personal data, keys and, if configured, dates and other changing texts, in requests and answers before they are recorded. */
import { COMMON_KINDS } from '../core/finder-kinds.ts'
import { isList, isObject, type Json } from '../core/json.ts'
import { finderOf } from '../policy/guards/finders/find-texts.ts'
import { LABELS } from '../policy/guards/guard-labels.ts'

/** Texts that change from run to run although the request means the same. In the order in which they are replaced: a path may have a date. */
export const NORMALISERS = ['paths', 'uuids', 'dates'] as const
export type Normaliser = (typeof NORMALISERS)[number]

const CHANGING: { readonly [name in Normaliser]: readonly [pattern: RegExp, mark: string] } = {
  dates: [
    /\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?\b|\b(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,? )?(?:\d{1,2} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.? (?:\d{1,2}, ?)?\d{4}\b/g,
    '<date>',
  ],
  uuids: [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '<uuid>'],
  paths: [
    /(?<![\w:/.])(?:[A-Za-z]:)?(?:\/(?:home|Users|tmp|var|private|root|mnt|work|workspace|builds)(?:\/[\w.@+-]+)+\/?|\\(?:Users|Temp)(?:\\[\w.@+-]+)+)/g,
    '<path>',
  ],
}

/** The text without what these normalisers leave out. */
export const normalised = (text: string, names: readonly Normaliser[]): string =>
  NORMALISERS.filter((name) => names.includes(name)).reduce((out, name) => out.replace(...CHANGING[name]), text)

/** What is masked: personal data and keys. */
export const findPersonal = finderOf({ kinds: COMMON_KINDS, patterns: [], words: [] })
/** A mask of an earlier answer, which the client has sent back. */
const MASK = /\[([A-Z]{3,8})_(\d{1,6})\]/g

/** The masks of one exchange: `[EMAIL_1]`, numbered in the order of the texts. */
export class ExchangeMasks {
  readonly #normalise: readonly Normaliser[]
  readonly #masks = new Map<string, string>()
  readonly #last = new Map<string, number>()

  constructor(normalise: readonly Normaliser[]) {
    this.#normalise = normalise
  }

  /** The text with masks in place of what is found, and normalised. */
  ofRequest(text: string): string {
    return normalised(this.replaced(text), this.#normalise)
  }

  /** The spans of a text that become masks, with those. */
  spans(text: string): readonly { readonly start: number; readonly end: number; readonly mask: string }[] {
    for (const [, label = '', number] of text.matchAll(MASK))
      this.#last.set(label, Math.max(this.#last.get(label) ?? 0, Number(number)))
    return findPersonal(text).map(({ start, end, kind }) => ({
      start,
      end,
      mask: this.#maskOf(LABELS[kind], text.slice(start, end)),
    }))
  }

  replaced(text: string): string {
    let out = ''
    let from = 0
    for (const { start, end, mask } of this.spans(text)) {
      out += text.slice(from, start) + mask
      from = end
    }
    return out + text.slice(from)
  }

  #maskOf(label: string, text: string): string {
    const known = this.#masks.get(`${label} ${text}`)
    if (known !== undefined) return known
    const number = (this.#last.get(label) ?? 0) + 1
    this.#last.set(label, number)
    const mask = `[${label}_${number}]`
    this.#masks.set(`${label} ${text}`, mask)
    return mask
  }
}

/** The value with each of its texts replaced. Names of members stay. */
export const withTexts = (value: Json, replace: (text: string) => string): Json => {
  if (typeof value === 'string') return replace(value)
  if (isList(value)) return value.map((item) => withTexts(item, replace))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withTexts(inner ?? null, replace)]))
}
