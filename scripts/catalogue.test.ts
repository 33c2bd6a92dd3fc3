/** The command as an operator runs it: with a file, with a URL, and with an invalid source. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

const script = join(import.meta.dirname, 'catalogue.ts')
const folder = mkdtempSync(join(tmpdir(), 'headgate-catalogue-'))
const out = join(folder, 'catalogue.json')

const prices = Object.fromEntries(
  Array.from({ length: 30 }, (_, n) => [
    `model-${n}`,
    {
      litellm_provider: 'openai',
      mode: 'chat',
      max_input_tokens: 1000 + n,
      input_cost_per_token: 1e-6,
      output_cost_per_token: 2e-6,
    },
  ]),
)
const pages: { readonly [path: string]: readonly [status: number, body: () => string] } = {
  '/prices.json': [200, () => JSON.stringify(prices)],
  '/huge.json': [200, () => `"${'x'.repeat(33 * 1024 * 1024)}"`],
  '/page.html': [200, () => '<html></html>'],
  '/few.json': [200, () => JSON.stringify({ 'model-0': prices['model-0'] })],
}
const server = createServer((request, response) => {
  const [status, body] = pages[request.url ?? ''] ?? [404, () => 'nothing here']
  response.writeHead(status).end(body())
})
let base = ''

before(async () => {
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  // An address of a TCP server is never a string.
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
after(() => {
  server.closeAllConnections()
  server.close()
  rmSync(folder, { recursive: true })
})

const run = (...words: readonly string[]) =>
  new Promise<{ code: number | null; output: string }>((done) => {
    const child = spawn(process.execPath, [script, ...words, '--out', out], { timeout: 60_000 })
    let output = ''
    child.stdout.on('data', (data) => (output += data))
    child.stderr.on('data', (data) => (output += data))
    child.on('close', (code) => done({ code, output }))
  })

test('catalogue: generated from a URL, with the given version', async () => {
  const { code, output } = await run('--from', `${base}/prices.json`, '--version', '9.9')
  assert.equal(code, 0, output)
  const made = JSON.parse(readFileSync(out, 'utf8'))
  assert.deepEqual(made.providers.openai['model-3'], { context: 1003, price: [1000, 2000] })
  assert.equal(made.sources[0].version, '9.9')
  rmSync(out)
})

test('catalogue: generated from a file', async () => {
  const location = join(folder, 'prices.json')
  writeFileSync(location, JSON.stringify(prices))
  const { code, output } = await run('--from', location)
  assert.equal(code, 0, output)
  assert.ok(existsSync(out))
  rmSync(out)
})

const INVALID = [
  ['a URL with status 404', '/missing.json', /responded with status 404/],
  ['a file above the limit', '/huge.json', /larger than the limit/],
  ['an HTML page', '/page.html', /not valid JSON/],
  ['an incomplete catalogue', '/few.json', /has only 1 models/],
] as const

for (const [what, path, message] of INVALID)
  test(`catalogue: ${what} is rejected and no file is written`, async () => {
    const { code, output } = await run('--from', base + path)
    assert.equal(code, 1, output)
    assert.match(output, message)
    assert.ok(!existsSync(out))
  })
