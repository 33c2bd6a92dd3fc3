/** `/{instance}/…`: files in both directions, methods, the ledger, budgets, and a provider that fails. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { BELOW, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const KEY = 'sk-client-0123456789abcdef'
const POOR = 'sk-poor-0123456789abcdef00'
const ADMIN = 'admin-token-0123456789abcdef'
const MEGABYTE = 1024 * 1024

type Serve = (req: IncomingMessage, res: ServerResponse) => void

describe('pass-through', { concurrency: false }, () => {
  let serve: Serve = (_req, res) => void res.end('{}')
  const upstream = createServer((req, res) => serve(req, res))
  let gateway: Started

  before(async () => {
    await once(upstream.listen(0, '127.0.0.1'), 'listening')
    const base = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
    const access = 'access: { passThrough: ["openai", "charged"] }'
    const open = 'isolate: none, paths: ["/v1/**"], methods: [GET, HEAD, POST, PUT, PATCH, DELETE]'
    gateway = await start({
      env: { AUTH_ADMIN: ADMIN },
      files: {
        'headgate.yaml': `limit: { upload: ${200 * MEGABYTE} }
timeout: { idle: 2000, firstContent: 2000 }
providers:
  openai: { baseUrl: "${base}", keys: ["sk-up"], models: [gpt-5-mini], passThrough: { ${open} } }
  charged: { kind: openai, baseUrl: "${base}", keys: ["sk-up"], models: [m], passThrough: { ${open}, charge: "0.25" } }
teams: { a: { ${access} } }
keys:
  one: { team: a, secret: ${KEY}, ${access} }
  poor: { team: a, secret: ${POOR}, ${access} }
budgets: { small: { amount: "1", period: day, mode: hard, appliesTo: { keys: [poor] } } }
`,
      },
    })
  })
  after(async () => {
    await gateway?.stop()
    upstream.closeAllConnections()
    upstream.close()
  })

  const call = (path: string, { key = KEY, ...init }: RequestInit & { key?: string } = {}) =>
    fetch(gateway.url + path, { ...init, headers: { authorization: `Bearer ${key}`, ...init.headers } })

  /** Resident memory of the gateway in MB. */
  const memory = (): number =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.child.pid}/status`, 'latin1'))?.[1] ?? 0) / 1024

  const part = Buffer.alloc(64 * 1024, 'headgate')
  const PARTS = 3_000
  /** MB of read buffers that wait for the garbage collector on a busy machine; a body that is kept takes 190. */
  const FLAT = 130
  const digest = createHash('sha256')
  for (let at = 0; at < PARTS; at++) digest.update(part)
  const expected = digest.digest('hex')

  for (const chunked of [false, true])
    test(`190 MB to a slow provider${chunked ? ', in chunks' : ''}: the same bytes, and flat memory`, async () => {
      let received = ''
      serve = async (req, res) => {
        const hash = createHash('sha256')
        let at = 0
        for await (const piece of req) {
          hash.update(piece)
          if (++at % 200 === 0) await sleep(5)
        }
        received = `${req.headers['content-length'] ?? 'chunked'} ${hash.digest('hex')}`
        res.setHeader('content-type', 'application/json').end('{"id":"file-1"}')
      }
      await (await call('/openai/v1/files')).text()
      const before = memory()
      let most = 0
      const watch = setInterval(() => {
        most = Math.max(most, memory())
      }, 20)
      const sent = request(`${gateway.url}/openai/v1/files`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${KEY}`,
          'content-type': 'application/octet-stream',
          ...(!chunked && { 'content-length': PARTS * part.length }),
        },
      })
      const answered = once(sent, 'response')
      for (let at = 0; at < PARTS; at++) if (!sent.write(part)) await once(sent, 'drain')
      sent.end()
      const [response] = await answered
      response.resume()
      await once(response, 'end')
      clearInterval(watch)
      assert.equal(response.statusCode, 200)
      assert.equal(received, `${chunked ? 'chunked' : PARTS * part.length} ${expected}`)
      assert.ok(most - before < FLAT, `${before.toFixed(0)} MB, then ${most.toFixed(0)} MB`)
    })

  test('190 MB to a slow client: the same bytes, and flat memory', async () => {
    serve = async (_req, res) => {
      res.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': PARTS * part.length })
      for (let at = 0; at < PARTS; at++) if (!res.write(part)) await once(res, 'drain')
      res.end()
    }
    const before = memory()
    let most = 0
    const hash = createHash('sha256')
    const response = await call('/openai/v1/files/file-1/content')
    let at = 0
    for await (const piece of response.body ?? []) {
      hash.update(piece)
      if (++at % 100 === 0) {
        await sleep(5)
        most = Math.max(most, memory())
      }
    }
    assert.equal(hash.digest('hex'), expected)
    assert.ok(most - before < FLAT, `${before.toFixed(0)} MB, then ${most.toFixed(0)} MB`)
  })

  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])
    test(`${method} passes, and its connection is used again`, async () => {
      const lines: string[] = []
      serve = (req, res) => {
        lines.push(`${req.method} ${req.url}`)
        req.resume()
        res.writeHead(method === 'DELETE' ? 204 : 200, { 'content-type': 'text/plain', etag: '"x"' })
        res.end(method === 'DELETE' ? undefined : 'text')
      }
      for (let turn = 0; turn < 3; turn++) {
        const response = await call('/openai/v1/vector_stores/vs_1?a=b', { method })
        assert.equal(await response.text(), method === 'HEAD' || method === 'DELETE' ? '' : 'text')
        assert.equal(response.headers.get('etag'), '"x"')
      }
      assert.deepEqual(lines, Array(3).fill(`${method} /v1/vector_stores/vs_1?a=b`))
    })

  test('an upload that is refused before its end', async () => {
    serve = (_req, res) =>
      void res.writeHead(413, { 'content-type': 'application/json' }).end('{"error":{"code":"big"}}')
    const response = await call('/openai/v1/files', { method: 'POST', body: Buffer.alloc(8 * MEGABYTE) }).catch(
      () => null,
    )
    if (response) assert.deepEqual([response.status, await response.json()], [413, { error: { code: 'big' } }])
    serve = (_req, res) => void res.end('{}')
    assert.equal((await call('/openai/v1/files')).status, 200)
  })

  test('a body above limit.upload, stated and in chunks', async () => {
    let complete = 0
    serve = (req, res) => {
      req.on('error', () => {})
      req.resume().on('end', () => {
        complete++
        res.end('{}')
      })
    }
    const stated = connect(Number(new URL(gateway.url).port), '127.0.0.1')
    stated.write(
      `POST ${BELOW}/openai/v1/files HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${KEY}\r\ncontent-length: ${201 * MEGABYTE}\r\n\r\n`,
    )
    const [head] = await once(stated.setEncoding('latin1'), 'data')
    stated.destroy()
    assert.match(head, /^HTTP\/1\.1 413 /)
    assert.match(head, /limit\.upload/)
    assert.equal(complete, 0)
  })

  test('a client that leaves in the middle of its upload', async () => {
    const aborted = new Promise<string>((resolve) => {
      serve = (req) => {
        req.on('error', () => {})
        req.resume().on('close', () => resolve(req.complete ? 'complete' : 'aborted'))
      }
    })
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
    socket.write(
      `POST ${BELOW}/openai/v1/files HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${KEY}\r\ncontent-type: text/plain\r\ncontent-length: 1000000\r\n\r\nabc`,
    )
    await sleep(300)
    socket.destroy()
    assert.equal(await aborted, 'aborted')
  })

  test('a provider that stops in the middle of an answer', async () => {
    serve = (_req, res) => {
      res.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': 100 })
      res.write('abc')
      setTimeout(() => res.destroy(), 100)
    }
    await assert.rejects(async () => (await call('/openai/v1/files/f/content')).arrayBuffer())
    serve = (_req, res) => void res.writeHead(200, { 'content-type': 'text/plain' }).write('abc')
    await assert.rejects(async () => (await call('/openai/v1/files/f/content')).arrayBuffer())
  })

  test('a provider that never answers', async () => {
    serve = () => {}
    const response = await call('/openai/v1/files')
    assert.deepEqual([response.status, Object(await response.json()).error.code], [504, 'timeout'])
  })

  const ledger = async (): Promise<readonly Record<string, unknown>[]> => {
    const headers = { authorization: `Bearer ${ADMIN}` }
    await sleep(1_500)
    const response = await fetch(`${gateway.url}/admin/api/v1/requests?limit=50`, { headers })
    return Object(await response.json()).data
  }

  test('every call has a row, priced by its usage at known paths, else by the charge', async () => {
    serve = (_req, res) => void res.setHeader('content-type', 'application/json').end('{"object":"list","data":[]}')
    await (await call('/openai/v1/files/file-secret1', { method: 'DELETE' })).text()
    await (await call('/charged/v1/batches')).text()
    serve = (req, res) => {
      req.resume()
      const usage = { prompt_tokens: 1_000, completion_tokens: 10, total_tokens: 1_010 }
      const choices = [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }]
      res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify({ id: 'c', object: 'chat.completion', model: 'gpt-5-mini', choices, usage }))
    }
    const json = { 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'gpt-5-mini', messages: [] })
    const answered = await call('/charged/v1/chat/completions', { method: 'POST', body, headers: json })
    assert.equal(answered.status, 200)
    await answered.text()
    const rows = (await ledger()).filter(({ style }) => style === 'pass')
    const row = (asked: string) => rows.find((one) => one.asked === asked)
    assert.ok(!JSON.stringify(rows).includes('file-secret1'))
    assert.equal(row('DELETE /v1/files/{id}')?.cost, null, JSON.stringify(rows.slice(0, 3)))
    assert.equal(Number(row('GET /v1/batches')?.cost), 0.25)
    const priced = row('POST /v1/chat/completions')
    assert.ok(Number(priced?.cost) > 0 && Number(priced?.cost) < 0.01, JSON.stringify(priced))
    assert.equal(priced?.status, 200)
  })

  test('a hard budget pays the charge, and refuses what has none', async () => {
    serve = (_req, res) => void res.end('{}')
    const unknown = await call('/openai/v1/files', { key: POOR })
    assert.deepEqual([unknown.status, Object(await unknown.json()).error.code], [402, 'budget_exceeded'])
    const statuses: number[] = []
    for (let turn = 0; turn < 6; turn++) statuses.push((await call('/charged/v1/files', { key: POOR })).status)
    assert.deepEqual(statuses, [200, 200, 200, 200, 402, 402])
  })

  test('the doctor names keys whose access to models does not apply to passed calls', async () => {
    const access = 'access: { passThrough: [openai], models: [gpt-5-mini] }'
    const file = `providers:
  openai: { baseUrl: "http://127.0.0.1:1/v1", keys: ["sk-up"], passThrough: { paths: ["/v1/**"] } }
keys: { one: { secret: ${KEY}, ${access} } }
`
    const folder = await mkdtemp(join(tmpdir(), 'headgate-doctor-'))
    await writeFile(join(folder, 'headgate.yaml'), file)
    const { json } = await verb(['doctor', '--json'], { cwd: folder, env: {} })
    const found = json().data.find(({ check }: { check: string }) => check === 'pass-through')
    assert.equal(found?.status, 'warning')
    assert.match(found.detail, /access.models of one does not apply/)
    await rm(folder, { recursive: true })
  })
})
