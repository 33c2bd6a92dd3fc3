/** `headgate doctor` and certificates: of the port, and those that providers ask for. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { selfSigned } from '../support/certificate.ts'
import { verb } from './support/verb.ts'

const CONFIG = `
tls: { cert: [long.crt, short.crt, ended.crt], key: [long.key, short.key, ended.key] }
providers:
  house: { kind: openai-compatible, baseUrl: "http://127.0.0.1:9/v1", keys: [k], models: [m], clientCert: { cert: last.crt, key: last.key } }
`

test('doctor: certificates that end within 30 days, that have ended and that are missing', async (context) => {
  const cwd = mkdtempSync(join(tmpdir(), 'headgate-certificates-'))
  context.after(() => rmSync(cwd, { recursive: true, force: true }))
  const make = (name: string, days: number) => {
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', `${name}.key`]
    const words = ['req', '-x509', ...key, '-out', `${name}.crt`, '-days', String(days), '-subj', `/CN=${name}`]
    const { status, stderr } = spawnSync('openssl', words, { cwd, encoding: 'utf8', input: '', timeout: 30_000 })
    assert.equal(status, 0, stderr)
  }
  make('long', 32)
  make('short', 21)
  make('last', 2)
  const ended = selfSigned('expired')
  writeFileSync(join(cwd, 'ended.crt'), ended.cert)
  writeFileSync(join(cwd, 'ended.key'), ended.key)
  writeFileSync(join(cwd, 'headgate.yaml'), CONFIG)
  const found = async () => {
    const { code, stderr, json } = await verb(['doctor', '--json'], { cwd, env: {} })
    const { data } = json() as { readonly data: readonly { check: string; status: string; detail: string }[] }
    const certificates = data.filter(({ check }) => check === 'certificate')
    assert.ok(certificates.length > 0, stderr)
    return {
      code,
      shown: certificates.map(({ status, detail }) => `${status}: ${detail.replaceAll(/\d{4}-\d\d-\d\d/g, 'DATE')}`),
    }
  }
  const first = await found()
  assert.deepEqual(first.shown, [
    'ok: long.crt of the port ends on DATE',
    'warning: short.crt of the port ends in 20 days, on DATE; replace it',
    'failed: ended.crt of the port ended on DATE; replace it',
    'warning: last.crt for house ends in 1 day, on DATE; replace it',
  ])
  assert.equal(first.code, 1)

  rmSync(join(cwd, 'long.crt'))
  writeFileSync(join(cwd, 'short.crt'), 'not a certificate: secret')
  const { shown } = await found()
  assert.deepEqual(shown.slice(0, 2), [
    'failed: long.crt of the port cannot be read as a certificate in PEM',
    'failed: short.crt of the port cannot be read as a certificate in PEM',
  ])
})
