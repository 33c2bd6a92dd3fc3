/** The command as an operator runs it: from a file, from an address, and from what is no catalogue. */
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
const server = createServer((request, answer) => {
  const [status, body] = pages[request.url ?? ''] ?? [404, () => 'nothing here']
  answer.writeHead(status).end(body())
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
  new Promise<{ code: number | null; said: string }>((done) => {
    const child = spawn(process.execPath, [script, ...words, '--out', out], { timeout: 60_000 })
    let said = ''
    child.stdout.on('data', (data) => (said += data))
    child.stderr.on('data', (data) => (said += data))
    child.on('close', (code) => done({ code, said }))
  })

test('catalogue: made from an address, with the version that was given', async () => {
  const { code, said } = await run('--from', `${base}/prices.json`, '--version', '9.9')
  assert.equal(code, 0, said)
  const made = JSON.parse(readFileSync(out, 'utf8'))
  assert.deepEqual(made.providers.openai['model-3'], { context: 1003, price: [1000, 2000] })
  assert.equal(made.sources[0].version, '9.9')
  rmSync(out)
})

test('catalogue: made from a file', async () => {
  const place = join(folder, 'prices.json')
  writeFileSync(place, JSON.stringify(prices))
  const { code, said } = await run('--from', place)
  assert.equal(code, 0, said)
  assert.ok(existsSync(out))
  rmSync(out)
})

const refused = [
  ['an address that has nothing', '/missing.json', /answered 404/],
  ['a file beyond the limit', '/huge.json', /larger than/],
  ['a page', '/page.html', /not valid JSON/],
  ['a piece of a catalogue', '/few.json', /has only 1 models/],
] as const

for (const [what, path, message] of refused)
  test(`catalogue: ${what} is refused, and what was there stays`, async () => {
    const { code, said } = await run('--from', base + path)
    assert.equal(code, 1, said)
    assert.match(said, message)
    assert.ok(!existsSync(out))
  })
