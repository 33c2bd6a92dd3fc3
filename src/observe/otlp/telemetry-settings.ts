/** The settings of telemetry, as the gateway and the bookkeeper need them. */
import { readFileSync } from 'node:fs'
import { callSpan } from '../../core/call-span.ts'
import { type Egress, plainEgress } from '../../core/egress.ts'
import type { Settings } from '../../core/settings.ts'
import { withoutSlashes } from '../../core/trailing-slashes.ts'
import type { TelemetryRules } from '../../gateway/accounts/accounts-state.ts'
import type { Receiver, TelemetryOptions } from './telemetry-options.ts'

type TelemetrySettings = Pick<Settings, 'otel' | 'usage'>

/** Null: nothing is exported. What is exported is made of the records of the ledger. */
export const telemetryRules = ({ otel, usage }: TelemetrySettings): TelemetryRules | null => {
  const { sampler, samplerArg } = otel.traces
  const traces = urlOf(otel, 'traces') !== null
  if ((!traces && urlOf(otel, 'metrics') === null) || !usage.ledger) return null
  return {
    traces,
    sampling: { sampler, ratio: samplerArg },
    propagate: otel.propagate.includes('*') ? true : otel.propagate,
  }
}

type ExportSettings = { readonly settings: TelemetrySettings; readonly network: Egress }

/** Null: nothing is exported. `onProblem`: receives why, if that is a mistake. */
export const telemetryOptions = (
  { settings, network }: ExportSettings,
  version: string,
  onProblem: (problem: string) => void,
): TelemetryOptions | null => {
  const { otel } = settings
  const rules = telemetryRules(settings)
  if (!rules) return null
  try {
    const metrics = receiverOf({ otel, network }, 'metrics')
    return {
      traces: receiverOf({ otel, network }, 'traces'),
      metrics: metrics && { ...metrics, interval: otel.metrics.interval },
      resource: {
        'service.name': otel.serviceName,
        'service.version': version,
        ...pairsOf(otel.resourceAttributes),
      },
      version,
      sampling: rules.sampling,
      keepErrors: otel.keepErrors,
      legacyNames: otel.legacyNames,
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    onProblem(
      `Telemetry is not exported: otel.certificate (OTEL_EXPORTER_OTLP_CERTIFICATE) cannot be read (${code ?? 'malformed'}).`,
    )
    return null
  }
}

/** A request, as far as its trace depends on it. `trace`: its `traceparent`; null: it has none. */
type Traced = { readonly id: string; readonly trace: string | null; readonly outcome: string }

/** The address of the trace of a request (`otel.traceUrl`). Null: there is none, or the trace was not exported. */
export const traceLink = (settings: TelemetrySettings, { id, trace, outcome }: Traced): string | null => {
  const { traceUrl, keepErrors } = settings.otel
  const rules = telemetryRules(settings)
  if (traceUrl === undefined || !rules?.traces) return null
  const { traceId, isSampled } = callSpan(id, trace, rules.sampling)
  const isExported = isSampled || (keepErrors && outcome !== 'answered')
  return isExported ? traceUrl.replaceAll('{trace}', traceId) : null
}

type OtelSettings = Settings['otel']

const urlOf = ({ disabled, endpoint, ...signals }: OtelSettings, signal: 'traces' | 'metrics'): string | null => {
  const own = signals[signal]
  if (disabled || own.exporter === 'none') return null
  return own.endpoint ?? (endpoint === undefined ? null : `${withoutSlashes(endpoint)}/v1/${signal}`)
}

/** Throws if the certificate cannot be read. */
const receiverOf = (
  { otel, network }: { readonly otel: OtelSettings; readonly network: Egress },
  signal: 'traces' | 'metrics',
): Receiver | null => {
  const url = urlOf(otel, signal)
  if (url === null) return null
  const { headers } = otel[signal]
  return {
    url,
    headers: pairsOf(headers.length > 0 ? headers : otel.headers),
    format: otel.protocol === 'http/json' ? 'json' : 'protobuf',
    compression: otel.compression,
    egress: plainEgress(network, url, otel.certificate === undefined ? null : readFileSync(otel.certificate, 'utf8')),
    timeout: otel.timeout,
  }
}

/** Values are percent-encoded, as in W3C Baggage (OTLP exporter specification). One that is not is taken as it is. */
const pairsOf = (list: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(
    list.map((pair) => {
      const at = pair.indexOf('=')
      return [pair.slice(0, at).trim(), decoded(pair.slice(at + 1).trim())]
    }),
  )

const decoded = (value: string): string => {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
