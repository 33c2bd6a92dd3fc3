/** Replaces found texts of one request by masks, and restores them in its answer. */
import type { TextForm } from './answer-values.ts'
import { merged } from './finders/find-texts.ts'
import type { TextRange } from './finders/finder.ts'

/** Ten bytes at least that stand for a text, the same in each process with the same secret. */
export type MaskDigest = (text: string) => Uint8Array

/** A mask in an answer: models change its case, or escape its brackets, which JSON escapes again. */
const MASKS: { readonly [form in TextForm]: RegExp } = {
  plain: /\\?(\[[A-Z][A-Z0-9]{0,11}_(?:[A-Z2-7]{10}|[A-Z2-7]{6}))\\?\]/gi,
  json: /(?:\\\\)?(\[[A-Z][A-Z0-9]{0,11}_(?:[A-Z2-7]{10}|[A-Z2-7]{6}))(?:\\\\)?\]/gi,
}

/** What may be the beginning of a mask, at the end of a text. */
const BEGINNING = /\\{0,2}(?:\[[A-Z0-9_]{0,23}\\{0,2})?$/i
/** Characters of the longest mask with its escapes. */
const LONGEST = 32

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
/** Characters of a mask's digest: more if another text of the request has the first ones too. */
const LENGTHS = [6, 10]

/** The masks of one request. No table outlives the request: the same text has the same mask in all requests of a client. */
export class Masks {
  readonly #digest: MaskDigest
  /** By label and text. */
  readonly #masks = new Map<string, string>()
  /** By mask. */
  readonly #texts = new Map<string, string>()

  constructor(digest: MaskDigest) {
    this.#digest = digest
  }

  /** Number of masks that can be restored. */
  get size(): number {
    return this.#texts.size
  }

  /** The mask of a text, such as `[EMAIL_K7Q2M9]`. `label`: a letter, then up to eleven letters and digits. */
  maskOf(label: string, text: string): string {
    const name = `${label} ${text}`
    const known = this.#masks.get(name)
    if (known !== undefined) return known
    const mask = this.#newMask(label, name)
    this.#masks.set(name, mask)
    if (mask !== `[${label}]`) this.#texts.set(mask, text)
    return mask
  }

  #newMask(label: string, name: string): string {
    const digest = Array.from(this.#digest(name), (byte) => LETTERS[byte % LETTERS.length]).join('')
    const masks = LENGTHS.map((length) => `[${label}_${digest.slice(0, length)}]`)
    // Without a free mask the text cannot be restored.
    return masks.find((mask) => !this.#texts.has(mask)) ?? `[${label}]`
  }

  /** The masks in a text which these spans begin or end in. */
  cutBy<T extends TextRange>(text: string, spans: readonly T[]): readonly T[] {
    if (this.#texts.size === 0) return []
    return Array.from(text.matchAll(MASKS.plain)).flatMap(({ 0: found, index: start }) => {
      const end = start + found.length
      const cut = spans.find((span) => span.start < end && span.end > start)
      return cut && this.restored(found, 'plain') !== found ? [{ ...cut, start, end }] : []
    })
  }

  /** The text with what its masks stand for; a mask of another request stays. `replaced` receives each position and length. */
  restored(text: string, form: TextForm, replaced?: (at: number, before: number, after: number) => void): string {
    return text.replace(MASKS[form], (found: string, mask: string, at: number) => {
      const original = this.#texts.get(`${mask.toUpperCase()}]`)
      if (original === undefined) return found
      const written = form === 'json' ? JSON.stringify(original).slice(1, -1) : original
      replaced?.(at, found.length, written.length)
      return written
    })
  }
}

/**
 * The text with masks in place of the spans, of which those that overlap are one. The text may have masks already: one that a span
 * cuts is masked again as a whole, with what it stands for.
 */
export const maskedText = (
  text: string,
  spans: readonly (TextRange & { readonly label: string })[],
  masks: Masks,
): string => {
  let out = ''
  let from = 0
  for (const { start, end, label } of merged([...spans, ...masks.cutBy(text, spans)])) {
    out += text.slice(from, start) + masks.maskOf(label, masks.restored(text.slice(start, end), 'plain'))
    from = end
  }
  return out + text.slice(from)
}

/** The position up to which a text can be released: what follows may be the beginning of a mask. */
export const releasableLength = (text: string): number => {
  const from = Math.max(0, text.length - LONGEST)
  return from + (BEGINNING.exec(text.slice(from))?.index ?? text.length - from)
}
