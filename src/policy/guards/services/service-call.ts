/** The questions that guards ask services, and what their answers mean. */
import type { RequestText } from '../../../core/guard.ts'
import type { JsonObject } from '../../../core/json.ts'

/** The texts that a service checks, and the call to which they belong. */
export type AskedTexts = {
  readonly id: string
  readonly phase: 'request' | 'answer'
  /** Whether the texts are complete: false while an answer arrives. */
  readonly final: boolean
  readonly team: { readonly id: string; readonly name: string }
  readonly key: { readonly id: string; readonly name: string }
  readonly model: string
  /** The kind of call, as in the log. */
  readonly style: string
  readonly texts: readonly RequestText[]
}

/** A POST to a service. `path`: after the configured address. */
export type ServiceCall = {
  readonly path: string
  readonly body: JsonObject
  /** Reads the parsed answer. */
  readonly read: (answer: unknown) => ServiceReading
}

/** A part of the text with index `i`, in UTF-16 units from `start` to before `end`. */
export type FoundPart = {
  readonly i: number
  readonly start: number
  readonly end: number
  readonly label: string
  /** What replaces it for good; absent: a mask of this gateway, which answers have restored. */
  readonly replacement?: string
}

/** The decision of a service. `mask`: there are spans. */
export type ServiceFinding = {
  readonly action: 'allow' | 'flag' | 'mask' | 'block'
  /** For the client, written by the service for this purpose. */
  readonly message: string | null
  /** What was found: names of categories, never a text. */
  readonly labels: readonly string[]
  readonly spans: readonly FoundPart[]
}

/** An answer that does not follow the contract of its service. `wrong`: why, without any part of it. */
export type ServiceReading = ServiceFinding | { readonly wrong: string }

export const ALLOWED: ServiceFinding = { action: 'allow', message: null, labels: [], spans: [] }

/** A finding of something. */
export const found = (
  action: 'flag' | 'block',
  labels: readonly string[],
  message: string | null = null,
): ServiceFinding => ({ ...ALLOWED, action, labels: namesOf(labels), message })

/** Parts of the texts are to be replaced. */
export const maskedParts = (spans: readonly FoundPart[]): ServiceFinding =>
  spans.length === 0 ? ALLOWED : { ...ALLOWED, action: 'mask', labels: namesOf(spans.map(({ label }) => label)), spans }

const namesOf = (labels: readonly string[]): readonly string[] => [...new Set(labels.map(labelName))].filter(Boolean)

const STRICTNESS = ['allow', 'flag', 'mask', 'block'] as const

/** The findings of several calls as one; the first that is wrong decides. */
export const joined = (readings: readonly ServiceReading[]): ServiceReading => {
  const findings: ServiceFinding[] = []
  for (const reading of readings) {
    if ('wrong' in reading) return reading
    findings.push(reading)
  }
  const [first = ALLOWED, ...others] = findings
  return others.reduce(
    (all, one) => ({
      action: STRICTNESS[Math.max(STRICTNESS.indexOf(all.action), STRICTNESS.indexOf(one.action))] ?? 'block',
      message: all.message ?? one.message,
      labels: [...new Set([...all.labels, ...one.labels])],
      spans: [...all.spans, ...one.spans],
    }),
    first,
  )
}

/** Longest name of a category. */
const LABEL_CHARS = 40

/** A category as a name for headers and messages. A service that sends texts instead cannot write them there. */
export const labelName = (label: string): string => label.replace(/[^\w./-]+/g, '-').slice(0, LABEL_CHARS)

/** The category of a span as the label of a mask: up to 12 capital letters and digits. */
export const maskLabel = (label: string): string => {
  const name = label
    .toUpperCase()
    .replace(/[^A-Z0-9]/g, '')
    .slice(0, 12)
  return /^[A-Z]/.test(name) ? name : 'TEXT'
}

/** Lists of indexes whose texts have at most so many characters together; a longer text is alone. */
export const batches = (
  texts: readonly { readonly text: string }[],
  { count, characters }: { readonly count: number; readonly characters: number },
): readonly (readonly number[])[] => {
  const out: number[][] = []
  let size = Number.POSITIVE_INFINITY
  for (const [i, { text }] of texts.entries()) {
    const last = out.at(-1)
    if (last === undefined || last.length >= count || size + text.length > characters) {
      out.push([i])
      size = text.length
    } else {
      last.push(i)
      size += text.length
    }
  }
  return out
}
