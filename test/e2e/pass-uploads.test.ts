/**
 * Google's resumable uploads through the pass-through, as @google/genai 3.1.0 sends them: the content has the type `application/json`,
 * and the address of its second call comes in the first answer.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { start } from './support/process.ts'

const KEYS = { one: 'sk-one-0123456789abcdef0123', two: 'sk-two-0123456789abcdef0123' }
const CONTENT = Buffer.from(`plain text, "files/foreign" and \u00ff, `.repeat(200), 'latin1')
const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

test('content of an upload passes as it is, whatever its type says, and belongs to its team', async () => {
  const received: { readonly url: string; readonly command: string; readonly body: Buffer }[] = []
  const upstream = createServer((req, res) => {
    const parts: Buffer[] = []
    req.on('data', (part: Buffer) => parts.push(part))
    req.on('end', () => {
      const { url = '' } = req
      const command = String(req.headers['x-goog-upload-command'] ?? '')
      received.push({ url, command, body: Buffer.concat(parts) })
      const { port } = upstream.address() as AddressInfo
      if (command === 'start') {
        res.setHeader(
          'x-goog-upload-url',
          `http://127.0.0.1:${port}/upload/v1beta/files?upload_id=ABgVH88XqF_-0x9&upload_protocol=resumable`,
        )
        res.setHeader('x-goog-upload-status', 'active')
        return res.end('{}')
      }
      if (command !== '') res.setHeader('x-goog-upload-status', 'final')
      res.setHeader('content-type', 'application/json')
      const file = { name: 'files/f1', state: 'ACTIVE' }
      if (command !== '') return res.end(JSON.stringify({ file }))
      return res.end(JSON.stringify(url.includes('f1') ? file : { files: [file, { name: 'files/foreign' }] }))
    })
  })
  await once(upstream.listen(0, '127.0.0.1'), 'listening')
  closers.push(() => upstream.close())
  const { port } = upstream.address() as AddressInfo
  const access = 'access: { passThrough: [gemini] }'
  const gateway = await start({
    env: {},
    files: {
      'headgate.yaml': `providers:
  gemini:
    baseUrl: "http://127.0.0.1:${port}/v1beta"
    keys: [AIza-up]
    models: [m]
    passThrough: { paths: ["/v1beta/**", "/upload/v1beta/**"], methods: [GET, POST], charge: "0" }
teams: { a: { ${access} }, b: { ${access} } }
keys:
  one: { team: a, secret: ${KEYS.one}, ${access} }
  two: { team: b, secret: ${KEYS.two}, ${access} }
`,
    },
  })
  closers.push(() => gateway.stop())
  const call = (url: string, key: string, init: RequestInit = {}) =>
    fetch(url, { ...init, headers: { 'x-goog-api-key': key, ...init.headers } })
  const json = { 'content-type': 'application/json' }

  const begun = await call(`${gateway.url}/gemini/upload/v1beta/files`, KEYS.one, {
    method: 'POST',
    headers: {
      ...json,
      'x-goog-upload-protocol': 'resumable',
      'x-goog-upload-command': 'start',
      'x-goog-upload-header-content-length': String(CONTENT.length),
      'x-goog-upload-header-content-type': 'text/plain',
    },
    body: JSON.stringify({ file: { mimeType: 'text/plain' } }),
  })
  const next = begun.headers.get('x-goog-upload-url') ?? ''
  assert.equal(next, `${gateway.url}/gemini/upload/v1beta/files?upload_id=ABgVH88XqF_-0x9&upload_protocol=resumable`)

  const headers = { ...json, 'x-goog-upload-offset': '0', 'x-goog-upload-command': 'upload, finalize' }
  assert.equal((await call(next, KEYS.two, { method: 'POST', headers, body: CONTENT })).status, 404)
  const made = await call(next, KEYS.one, { method: 'POST', headers, body: CONTENT })
  assert.equal(made.status, 200, await made.clone().text())
  assert.equal(made.headers.get('x-goog-upload-status'), 'final')
  assert.ok(received.at(-1)?.body.equals(CONTENT))

  const shown = (key: string, path: string) => call(`${gateway.url}/gemini/v1beta/${path}`, key)
  assert.equal((await shown(KEYS.one, 'files/f1')).status, 200)
  assert.deepEqual(await (await shown(KEYS.one, 'files')).json(), { files: [{ name: 'files/f1', state: 'ACTIVE' }] })
  assert.equal((await shown(KEYS.two, 'files/f1')).status, 404)

  // On other paths the header hides nothing: JSON is read for foreign objects.
  const before = received.length
  const hidden = await call(`${gateway.url}/gemini/v1beta/models/m:generateContent`, KEYS.two, {
    method: 'POST',
    headers,
    body: CONTENT,
  })
  assert.equal(hidden.status, 400)
  assert.equal(received.length, before)
})
