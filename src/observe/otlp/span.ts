/** A span in the form that the official serializer reads (`ReadableSpan` of `@opentelemetry/sdk-trace`). */
import type { ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer'
import { ATTRIBUTES, SCHEMA_URL, SCOPE } from './gen-ai.ts'

export type OtlpSpan = Parameters<typeof ProtobufTraceSerializer.serializeRequest>[0][number]
export type OtlpResource = OtlpSpan['resource']

/** `SpanKind` and `SpanStatusCode` of `@opentelemetry/api`, whose values the protocol fixes. */
export const KIND = { internal: 0, server: 1, client: 2 } as const
const STATUS = { unset: 0, error: 2 } as const

/** Values by the members of `ATTRIBUTES`. Undefined and null: it is not known. */
export type SpanValues = {
  readonly [name in keyof typeof ATTRIBUTES]?: string | number | boolean | readonly string[] | null | undefined
}

/** Times are ms since 1970. `parentId`: null: the trace begins here. */
export type SpanParts = {
  readonly name: string
  readonly kind: (typeof KIND)[keyof typeof KIND]
  readonly traceId: string
  readonly spanId: string
  readonly parentId: string | null
  readonly isParentRemote: boolean
  readonly state: string | null
  readonly from: number
  readonly to: number
  readonly hasFailed: boolean
  readonly facts: SpanValues
  readonly events: readonly { readonly name: string; readonly at: number }[]
}

/** The flag of an exported span. */
const SAMPLED = 1

export const spanOf = (parts: SpanParts, resource: OtlpResource, version: string): OtlpSpan => {
  const { traceId, state } = parts
  const traceState = state === null ? {} : { traceState: stateOf(state) }
  const contextOf = (spanId: string) => ({ traceId, spanId, traceFlags: SAMPLED, ...traceState })
  const to = Math.max(parts.from, parts.to)
  return {
    name: parts.name,
    kind: parts.kind,
    spanContext: () => contextOf(parts.spanId),
    ...(parts.parentId !== null && {
      parentSpanContext: { ...contextOf(parts.parentId), isRemote: parts.isParentRemote },
    }),
    startTime: timeOf(parts.from),
    endTime: timeOf(to),
    duration: timeOf(to - parts.from),
    status: { code: parts.hasFailed ? STATUS.error : STATUS.unset },
    attributes: attributesOf(parts.facts),
    events: parts.events.map(({ name, at }) => ({ name, time: timeOf(at), attributes: {} })),
    links: [],
    ended: true,
    resource,
    instrumentationScope: { name: SCOPE, version, schemaUrl: SCHEMA_URL },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  }
}

/** Bytes that a span takes while it waits, estimated. */
export const sizeOf = ({ name, attributes }: Pick<OtlpSpan, 'name' | 'attributes'>): number => {
  let size = 400 + name.length
  for (const [key, value] of Object.entries(attributes))
    size += key.length + 16 + (typeof value === 'string' ? value.length : 16)
  return size
}

const attributesOf = (facts: SpanValues): OtlpSpan['attributes'] => {
  const attributes: OtlpSpan['attributes'] = {}
  for (const [name, value] of Object.entries(facts))
    if (value !== undefined && value !== null)
      // The names of facts are those of attributes, and the list is not changed.
      attributes[ATTRIBUTES[name as keyof SpanValues]] = value as string | number | boolean | string[]
  return attributes
}

export const timeOf = (ms: number): [number, number] => [Math.floor(ms / 1_000), Math.round((ms % 1_000) * 1_000_000)]

/** Only its text is exported. */
const stateOf = (text: string): NonNullable<ReturnType<OtlpSpan['spanContext']>['traceState']> => {
  const same = { set: () => same, unset: () => same, get: () => undefined, serialize: () => text }
  return same
}

/** A resource that is known at once. */
export const resourceOf = (attributes: Readonly<Record<string, string>>): OtlpResource => {
  const resource: OtlpResource = {
    attributes,
    asyncAttributesPending: false,
    merge: () => resource,
    getRawAttributes: () => Object.entries(attributes),
  }
  return resource
}
