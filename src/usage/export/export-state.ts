/**
 * The state of an export. It is an object beside those with usage: a gateway that starts without its data folder, or another
 * one, continues from it.
 */
import { RANGE } from './export-range.ts'

export type ExportState = {
  /** ms since 1970: everything received before it is exported. A multiple of `RANGE`. */
  readonly position: number
  /** The gateway that exports, and until when in ms since 1970 others leave it to it. */
  readonly holder: string
  readonly until: number
  /** Starts of ranges which are read once more, with the rows that their objects have. The oldest is first. */
  readonly checks: readonly (readonly [from: number, rows: number])[]
}

const VERSION = 1

export const encodeState = (state: ExportState): string => JSON.stringify({ version: VERSION, ...state })

/** Null: this version does not understand it. */
export const decodeState = (text: string): ExportState | null => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  if (typeof value !== 'object' || value === null) return null
  const { version, position, holder, until, checks }: { readonly [name: string]: unknown } = { ...value }
  const isState =
    version === VERSION &&
    isStart(position) &&
    typeof holder === 'string' &&
    typeof until === 'number' &&
    Array.isArray(checks) &&
    checks.every(isCheck)
  return isState ? { position, holder, until, checks } : null
}

const isStart = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) % RANGE === 0

const isCheck = (value: unknown): value is readonly [number, number] =>
  Array.isArray(value) && value.length === 2 && isStart(value[0]) && Number.isSafeInteger(value[1])
