import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, loaded } from '../../test/support/config.ts'

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318' }
const warningsOf = (env: Readonly<Record<string, string>>) => loaded({ env }).warnings

test('otel: variables without effect are named, if telemetry is exported', () => {
  const env = { OTEL_BLRP_SCHEDULE_DELAY: '5', OTEL_TRACES_SAMPLER: 'always_on', OTEL_PROPAGATORS: ' ' }
  assert.deepEqual(warningsOf(env), [])
  assert.deepEqual(warningsOf({ ...env, ...ENDPOINT }), ['OTEL_BLRP_SCHEDULE_DELAY is set, but is not used'])
  assert.deepEqual(warningsOf({ ...env, ...ENDPOINT, OTEL_SDK_DISABLED: 'true' }), [])
})

test('otel: it needs the ledger', () => {
  assert.match(warningsOf({ ...ENDPOINT, USAGE_LEDGER: 'false' })[0] ?? '', /usage\.ledger \(USAGE_LEDGER\) is false/)
})

test('otel: gRPC is refused with the protocols that are there', () => {
  assert.deepEqual(lines({ env: { ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' } }), [
    'OTEL_EXPORTER_OTLP_PROTOCOL: found "grpc"; allowed: one of http/protobuf, http/json',
  ])
})

test('otel: headers are not shown', () => {
  const [line = ''] = lines({ env: { ...ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS: 'canary-0123456789' } })
  assert.match(line, /^OTEL_EXPORTER_OTLP_HEADERS: found a value that is not shown/)
  const file = lines({ env: {}, yaml: 'otel: { headers: [ canary-0123456789 ] }\n' })
  assert.doesNotMatch(file.join('\n'), /canary/)
})

test('drill: live checks need shapes of requests', () => {
  const found =
    'drill.live: found live checks without drill.shapes, which counts the requests that they check; allowed: drill.shapes: true, or no route with live checks'
  const yamlOf = (settings: string, route: string) =>
    `${settings}providers:\n  openai: { keys: [k-0123456789] }\nroutes:\n  fast: { targets: [openai/gpt-5-mini]${route} }\n`
  for (const yaml of [yamlOf('drill: { live: true }\n', ''), yamlOf('', ', drill: { live: true }')])
    assert.ok(
      lines({ env: {}, yaml }).some((line) => line.endsWith(found.slice('drill.live'.length))),
      yaml,
    )
  assert.deepEqual(lines({ env: {}, yaml: yamlOf('drill: { live: true, shapes: true }\n', '') }), [])
})
