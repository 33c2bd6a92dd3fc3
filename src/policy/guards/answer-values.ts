/** Changes the texts of an answer that are not its own text: citations, and values of JSON. */
import type { Citation } from '../../core/chat.ts'
import { digitsOf, isList, isObject, type Json, type JsonObject } from '../../core/json.ts'

/** `json`: the text is within a string of JSON. */
export type TextForm = 'plain' | 'json'

/** How texts and offsets of an answer change. */
export type AnswerChange = {
  readonly text: (text: string, form: TextForm) => string
  /** An offset in the text of the block. */
  readonly offset: (offset: number) => number
  /** The client has chosen the names of members, so that each string is a text, as are the digits of an integer, and no number is an offset. */
  readonly isFree?: true
  /** Members with these names keep their strings; absent: those that providers have signed or encrypted, or that are names. */
  readonly kept?: RegExp
}

/** The offsets in a text of which parts become longer or shorter. */
export class ShiftedOffsets {
  /** Length of the text so far, as received. */
  #length = 0
  /** A changed part: its end as received, and by how much the text became longer. */
  readonly #shifts: { readonly end: number; readonly by: number }[] = []

  /** `end`: in the piece that is added next. */
  shift(end: number, by: number): void {
    this.#shifts.push({ end: this.#length + end, by })
  }

  /** Adds a piece of this length. */
  add(length: number): void {
    this.#length += length
  }

  moved(offset: number): number {
    return this.#shifts.reduce((moved, { end, by }) => (end <= offset ? moved + by : moved), offset)
  }
}

export const changedCitation = (citation: Citation, change: AnswerChange): Citation => {
  const { url, title, start, end, raw } = citation
  return {
    ...citation,
    url: change.text(url, 'plain'),
    ...(title !== undefined && { title: change.text(title, 'plain') }),
    ...(start !== undefined && { start: change.offset(start) }),
    ...(end !== undefined && { end: change.offset(end) }),
    ...(raw !== undefined && { raw: changedValue(raw, change) }),
  }
}

export const changedObject = (object: JsonObject, change: AnswerChange): JsonObject =>
  Object.fromEntries(
    Object.entries(object).map(([name, value]) => [
      name,
      value === undefined ? value : changedValue(value, change, name),
    ]),
  )

/** A value with other strings. What providers have signed or encrypted stays. */
export const changedValue = (value: Json, change: AnswerChange, name = ''): Json => {
  // Arguments of a hosted tool are JSON within JSON.
  const { isFree, kept = SEALED } = change
  if (typeof value === 'string')
    return !isFree && kept.test(name) ? value : change.text(value, name === 'arguments' ? 'json' : 'plain')
  if (isFree) {
    const digits = digitsOf(value)
    const after = digits === undefined ? digits : change.text(digits, 'plain')
    if (after !== digits && after !== undefined) return after
  } else if (typeof value === 'number') return OFFSET.test(name) ? change.offset(value) : value
  if (isList(value)) return value.map((item) => changedValue(item, change, name))
  return isObject(value) ? changedObject(value, change) : value
}

const OFFSET = /^(?:start|end)_index$/
const SEALED = /^(?:id|type|data|.*_id|encrypted_.*|.*signature)$/
