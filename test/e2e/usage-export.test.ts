/** The export of usage by the gateway: settings, credentials, metrics and health. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isObject } from '../../src/core/json.ts'
import { fakeS3, S3_KEYS } from '../support/s3.ts'
import { until } from '../support/upstream.ts'
import { start } from './support/process.ts'

test('export: the gateway continues from the state in the bucket, and reports its lag', async (context) => {
  const s3 = await fakeS3()
  context.after(() => s3.close())
  const { bucket, prefix, region, endpoint } = s3.settings
  const env = {
    ...S3_KEYS,
    EXPORT_S3_BUCKET: bucket,
    EXPORT_S3_PREFIX: prefix,
    EXPORT_S3_REGION: region,
    EXPORT_S3_ENDPOINT: endpoint,
  }
  await using gateway = await start({ env })
  await until('the state is written', () => s3.objects.size > 0)
  const [name = ''] = s3.objects.keys()
  assert.match(name, /^a\/b=c\/state\.[A-Za-z0-9._-]+\.json$/)
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
  assert.match(metrics, /^headgate_export_lag_seconds [0-9]/m)
  assert.match(metrics, /^headgate_export_failures_total 0$/m)
  assert.doesNotMatch(gateway.output(), new RegExp(S3_KEYS.AWS_SECRET_ACCESS_KEY.replaceAll('/', '\\/')))
})

test('export: refused credentials make the gateway degraded, and do not end it', async (context) => {
  const s3 = await fakeS3()
  context.after(() => s3.close())
  const { bucket, region, endpoint } = s3.settings
  const file = `export:\n  s3: { bucket: ${bucket}, region: ${region}, endpoint: "${endpoint}" }\n`
  await using gateway = await start({
    env: { ...S3_KEYS, AWS_SECRET_ACCESS_KEY: 'wrong' },
    files: { 'headgate.yaml': file },
  })
  const logged = await gateway.line(({ event }) => event === 'export')
  assert.deepEqual([logged.level, logged.status], ['error', 'degraded'])
  assert.match(String(logged.message), /SignatureDoesNotMatch.*s3:PutObject/)
  const health: unknown = await (await fetch(`${gateway.url}/health`)).json()
  assert.ok(isObject(health))
  assert.equal(health.status, 'degraded')
  assert.match(JSON.stringify(health.problems), /"component":"export"/)
  assert.equal((await fetch(`${gateway.url}/health/ready`)).status, 200)
})
