/** A receiver of OTLP/JSON over HTTP. A script decides how it answers. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'

export type OtlpValue = string | number | boolean | readonly OtlpValue[]

export type ReceivedSpan = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly traceState?: string
  readonly name: string
  /** 2: server, 3: client. */
  readonly kind: number
  readonly attributes: Readonly<Record<string, OtlpValue>>
  readonly events: readonly string[]
  readonly hasFailed: boolean
  /** ms since 1970. */
  readonly from: number
  readonly to: number
  readonly schemaUrl: string
  readonly resource: Readonly<Record<string, OtlpValue>>
}

export type OtlpPost = {
  readonly number: number
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

/** A number: this status. `never`: no answer. `trickle`: a byte of an answer each 100 ms. */
export type OtlpAnswer = number | 'never' | 'trickle' | { readonly refused: number }

export type FakeReceiver = {
  readonly url: string
  readonly posts: OtlpPost[]
  /** Of accepted posts. */
  readonly spans: () => readonly ReceivedSpan[]
  answer: (post: OtlpPost) => OtlpAnswer
  readonly close: () => Promise<void>
}

export const startReceiver = async (): Promise<FakeReceiver> => {
  const posts: OtlpPost[] = []
  const spans: ReceivedSpan[] = []
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    const bytes = Buffer.concat(chunks)
    const isZipped = incoming.headers['content-encoding'] === 'gzip'
    const text = (isZipped ? gunzipSync(bytes) : bytes).toString()
    const post = { number: posts.length, path: incoming.url ?? '', headers: incoming.headers, text }
    posts.push(post)
    const answer = made.answer(post)
    if (answer === 'never') return
    if (answer === 'trickle') return trickle(response)
    const status = typeof answer === 'number' ? answer : 200
    if (status === 200 && incoming.headers['content-type'] === 'application/json') spans.push(...spansIn(text))
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(
      JSON.stringify(typeof answer === 'number' ? {} : { partialSuccess: { rejectedSpans: answer.refused } }),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // A server that listens on a port has this address.
  const { port } = server.address() as AddressInfo
  const made: FakeReceiver = {
    url: `http://127.0.0.1:${port}`,
    posts,
    spans: () => spans,
    answer: () => 200,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
  return made
}

const trickle = (response: ServerResponse): void => {
  response.writeHead(200, { 'content-type': 'application/json' })
  const timer = setInterval(() => response.write(' '), 100)
  response.on('close', () => clearInterval(timer))
}

/** The spans of a line of OTLP/JSON. */
export const spansIn = (text: string): readonly ReceivedSpan[] => {
  const { resourceSpans = [] } = JSON.parse(text)
  return resourceSpans.flatMap((ofResource: JsonGroup) =>
    ofResource.scopeSpans.flatMap(({ spans, schemaUrl = '' }) =>
      spans.map((span) => ({
        ...span,
        // The collector writes an empty one.
        ...(span.parentSpanId && { parentSpanId: span.parentSpanId }),
        attributes: valuesOf(span.attributes),
        events: (span.events ?? []).map(({ name }) => name),
        hasFailed: span.status?.code === 2,
        from: Number(BigInt(span.startTimeUnixNano) / 1_000_000n),
        to: Number(BigInt(span.endTimeUnixNano) / 1_000_000n),
        schemaUrl,
        resource: valuesOf(ofResource.resource.attributes),
      })),
    ),
  )
}

type JsonAttribute = { readonly key: string; readonly value: JsonValue }
type JsonValue = {
  readonly stringValue?: string
  readonly intValue?: string | number
  readonly doubleValue?: number
  readonly boolValue?: boolean
  readonly arrayValue?: { readonly values: readonly JsonValue[] }
}
type JsonGroup = {
  readonly resource: { readonly attributes: readonly JsonAttribute[] }
  readonly scopeSpans: readonly {
    readonly schemaUrl?: string
    readonly spans: readonly {
      readonly parentSpanId?: string
      readonly attributes?: readonly JsonAttribute[]
      readonly events?: readonly { readonly name: string }[]
      readonly status?: { readonly code?: number }
      readonly startTimeUnixNano: string
      readonly endTimeUnixNano: string
    }[]
  }[]
}

const valuesOf = (attributes: readonly JsonAttribute[] = []): Readonly<Record<string, OtlpValue>> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, plainValue(value)]))

const plainValue = ({ stringValue, intValue, doubleValue, boolValue, arrayValue }: JsonValue): OtlpValue =>
  stringValue ??
  boolValue ??
  doubleValue ??
  (intValue === undefined ? (arrayValue?.values ?? []).map(plainValue) : Number(intValue))

export type ReceivedMetric = {
  readonly name: string
  readonly unit: string
  readonly kind: 'histogram' | 'counter'
  readonly isCumulative: boolean
  readonly points: readonly {
    readonly attributes: Readonly<Record<string, OtlpValue>>
    readonly sum: number
    readonly count?: number
    readonly buckets?: readonly number[]
    readonly bounds?: readonly number[]
  }[]
}

type JsonPoint = {
  readonly attributes?: readonly JsonAttribute[]
  readonly sum?: number
  readonly count?: string | number
  readonly asInt?: string | number
  readonly asDouble?: number
  readonly bucketCounts?: readonly (string | number)[]
  readonly explicitBounds?: readonly number[]
}
type JsonSums = { readonly dataPoints: readonly JsonPoint[]; readonly aggregationTemporality?: number }
type JsonMetric = {
  readonly name: string
  readonly unit?: string
  readonly histogram?: JsonSums
  readonly sum?: JsonSums & { readonly isMonotonic?: boolean }
}

/** The metrics of a line of OTLP/JSON. */
export const metricsIn = (text: string): readonly ReceivedMetric[] => {
  const { resourceMetrics = [] } = JSON.parse(text)
  return resourceMetrics.flatMap(({ scopeMetrics }: { scopeMetrics: readonly { metrics: readonly JsonMetric[] }[] }) =>
    scopeMetrics.flatMap(({ metrics }) => metrics.map(receivedMetric)),
  )
}

const receivedMetric = ({ name, unit = '', histogram, sum }: JsonMetric): ReceivedMetric => {
  const { dataPoints, aggregationTemporality } = histogram ?? sum ?? { dataPoints: [] }
  return {
    name,
    unit,
    kind: histogram ? 'histogram' : 'counter',
    isCumulative: aggregationTemporality === 2,
    points: dataPoints.map((point) => ({
      attributes: valuesOf(point.attributes),
      sum: Number(point.sum ?? point.asDouble ?? point.asInt ?? 0),
      ...(point.count !== undefined && { count: Number(point.count) }),
      ...(point.bucketCounts && { buckets: point.bucketCounts.map(Number) }),
      ...(point.explicitBounds && { bounds: point.explicitBounds }),
    })),
  }
}
