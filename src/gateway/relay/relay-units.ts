/** What relayed requests and answers are billed for where tokens are not: seconds, characters, images, queries. */
import type { UnitCount } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, list, text } from '../../core/json.ts'
import type { RelayRow } from '../../core/relay.ts'
import type { DemandedUnits } from '../accounts/demand.ts'

/** Bytes of a second of audio at least: speech at 32 kbit/s. */
const BYTES_PER_SECOND = 4_000
/** Documents of a query (cohere.com/pricing, 2026-10-18: "one query with up to 100 documents"). */
const DOCUMENTS_PER_QUERY = 100
/** Seconds of a day: a longer recording is a mistake of the provider (BerriAI/litellm#22622). */
const MAX_SECONDS = 86_400

/** The units of a request. `file`: bytes of its files. */
export const requestUnits = (row: RelayRow, members: JsonObject, file: number): DemandedUnits | undefined => {
  switch (row.unit) {
    case undefined:
      return undefined
    case 'seconds':
      return { unit: 'seconds', count: null, most: Math.ceil(file / BYTES_PER_SECOND) }
    case 'characters':
      return counted('characters', charactersIn(members.input))
    case 'queries':
      return counted('queries', Math.max(1, Math.ceil(list(members.documents).length / DOCUMENTS_PER_QUERY)))
    case 'images':
      return { ...counted('images', resultsOf(members)), kind: kindOf(members) }
    default:
      throw new Error(`unknown unit ${JSON.stringify(row.unit satisfies never)}`)
  }
}

/** Vendors take 10 at most; `1e999` is a number of JSON. */
const MAX_RESULTS = 1_000

/** The number of results that a request asks for; that of a form is a text. */
export const resultsOf = ({ n }: JsonObject): number => Math.min(MAX_RESULTS, Math.max(1, Math.floor(Number(n)) || 1))

const counted = (unit: UnitCount['unit'], count: number): DemandedUnits => ({ unit, count, most: count })

/** Code points, as vendors count them. */
const charactersIn = (value: Json | undefined): number => {
  let count = 0
  for (const _ of text(value) ?? '') count++
  return count
}

/** Size and quality of images. `auto` is no size. */
const kindOf = ({ size, quality }: JsonObject): readonly string[] => {
  const [first, second] = [size, quality].map((value) => text(value)?.trim().toLowerCase())
  if (!first || first === 'auto') return []
  return second && second !== 'auto' ? [first, second] : [first]
}

/** The units that a whole answer states. `asked`: those of the request. */
export const answerUnits = (body: JsonObject, asked: UnitCount): UnitCount | undefined => {
  const { unit } = asked
  switch (unit) {
    case 'seconds': {
      const stated = (isObject(body.usage) ? body.usage.seconds : undefined) ?? body.duration
      const seconds = typeof stated === 'string' ? Number.parseFloat(stated) : stated
      return typeof seconds === 'number' && seconds > 0 && seconds <= MAX_SECONDS
        ? { unit, count: Math.ceil(seconds) }
        : undefined
    }
    case 'images':
      return isList(body.data) ? imagesOf(body.data.length, body, asked) : undefined
    case 'queries': {
      const billed = isObject(body.meta) && isObject(body.meta.billed_units) ? body.meta.billed_units : {}
      const { search_units: count } = billed
      return typeof count === 'number' && count > 0 ? { unit, count } : undefined
    }
    case 'characters':
    case 'calls':
      return undefined
    default:
      throw new Error(`unknown unit ${JSON.stringify(unit satisfies never)}`)
  }
}

/** Images of the kind that the answer states, or else of the one that was asked for. */
export const imagesOf = (count: number, stated: JsonObject, { kind: askedKind = [] }: UnitCount): UnitCount => {
  const kind = kindOf(stated)
  return { unit: 'images', count, kind: kind.length >= askedKind.length ? kind : askedKind }
}
