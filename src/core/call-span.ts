/**
 * The spans of a call (W3C Trace Context, level 2). Their IDs are derived from the ID of the request and the number of the
 * attempt: the ledger, the exporter and the headers of a call agree on them without a record.
 */

/** The span of a call. `parentId`: the span of the caller; null: the trace begins here. `state`: `tracestate`. */
export type CallSpan = {
  readonly traceId: string
  readonly spanId: string
  readonly parentId: string | null
  readonly isSampled: boolean
  readonly state: string | null
}

/** Which traces are exported, as `OTEL_TRACES_SAMPLER` names it. `ratio`: the share of traces, of those with `traceidratio`. */
export type Sampling = { readonly sampler: TraceSampler; readonly ratio: number }

export const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const
export type TraceSampler = (typeof SAMPLERS)[number]

/** The span of the request with this ID of our own. `trace`: its `traceparent`; null: it has none that is valid. */
export const callSpan = (
  id: string,
  trace: string | null,
  sampling: Sampling,
  state: string | null = null,
): CallSpan => {
  const parent = trace === null ? null : parentOf(trace)
  const hash = hashed(id)
  const traceId = parent?.traceId ?? wordOf(hash.a) + wordOf(hash.b) + wordOf(hash.c) + wordOf(hash.d)
  return {
    traceId,
    spanId: spanIdOf(hash, 0),
    parentId: parent?.spanId ?? null,
    isSampled: isSampled(sampling, traceId, parent?.isSampled ?? null),
    state: parent ? state : null,
  }
}

/** The ID of the span of an attempt. */
export const attemptSpanId = (id: string, attempt: number): string => spanIdOf(hashed(id), attempt + 1)

/** A value of `traceparent` or `traceresponse`. */
export const traceHeader = ({ traceId, isSampled }: Pick<CallSpan, 'traceId' | 'isSampled'>, spanId: string): string =>
  `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`

/** Section 3.3.1: at most 32 members, and of them what is longer than 512 characters may be dropped. */
const STATE = /^[\x20-\x7e]{1,512}$/

/** `tracestate` of a request; null: none, or of another form. */
export const traceState = (value: string | undefined): string | null =>
  value !== undefined && STATE.test(value) && value.split(',').length <= 32 ? value : null

type Parent = { readonly traceId: string; readonly spanId: string; readonly isSampled: boolean }

/** Null: it is invalid (section 3.2): the version `ff`, or an ID of zeros only. */
const parentOf = (trace: string): Parent | null => {
  const [version, traceId = '', spanId = '', flags = ''] = trace.split('-')
  if (version === 'ff' || /^0*$/.test(traceId) || /^0*$/.test(spanId)) return null
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** `parent`: the flag of the caller; null: there is no caller. */
const isSampled = ({ sampler, ratio }: Sampling, traceId: string, parent: boolean | null): boolean => {
  if (parent !== null && sampler.startsWith('parentbased_')) return parent
  if (sampler.endsWith('always_on')) return true
  return sampler.endsWith('traceidratio') && shareOf(traceId) < ratio
}

/** From 0 to 1, as OpenTelemetry's SDK for JavaScript computes it (`TraceIdRatioBasedSampler`), so that both decide alike. */
const shareOf = (traceId: string): number => {
  let folded = 0
  for (let at = 0; at < 32; at += 8) folded ^= Number.parseInt(traceId.slice(at, at + 8), 16)
  return (folded >>> 0) / 0xffffffff
}

/** 128 bits. */
type Hash = { readonly a: number; readonly b: number; readonly c: number; readonly d: number }

/**
 * Four times the mixing of MurmurHash3 (32 bits) with factors of their own, two characters at once, which needs no
 * `node:crypto`. IDs are random and no secrets, so it need not resist an attack.
 */
const hashed = (text: string): Hash => {
  let [a, b, c, d] = [text.length, 0x2c1b3c6d, 0x297a2d39, 0x1b56c4e9]
  for (let at = 0; at < text.length; at += 2) {
    const code = text.charCodeAt(at) | (text.charCodeAt(at + 1) << 16)
    a = mixed(a, Math.imul(code, 0x239b961b))
    b = mixed(b, Math.imul(code, 0x4cf5ad43))
    c = mixed(c, Math.imul(code, 0x27d4eb2f))
    d = mixed(d, Math.imul(code, 0x165667b1))
  }
  return { a, b, c, d }
}

/** Another ID of 64 bits for each number, from 0. */
const spanIdOf = ({ a, b, c, d }: Hash, number: number): string =>
  wordOf(mixed(a, c) + Math.imul(number + 1, 0x9e3779b1)) + wordOf(mixed(b, d) + Math.imul(number + 1, 0x85ebca77))

/** Invertible in both arguments. */
const mixed = (state: number, code: number): number => {
  const h = state ^ Math.imul((code << 15) | (code >>> 17), 0x1b873593)
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0x6b64e654) | 0
}

/** The last mixing, so that each bit of a text changes half of the bits. As eight hexadecimal digits. */
const wordOf = (state: number): string => {
  let h = Math.imul(state ^ (state >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return ((h ^ (h >>> 16)) >>> 0).toString(16).padStart(8, '0')
}
