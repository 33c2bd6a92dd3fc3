/** Long forms: through a file, with flat memory, to several targets. */
import assert from 'node:assert/strict'
import { createHash, type Hash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { createServer, request, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const MB = 1024 * 1024

/** Requests that the upstream has received. */
type Upload = { readonly key: string; readonly length: number; bytes: number; sum: string; isWhole: boolean }

const uploads: Upload[] = []
/** The next request is answered with 429 after it was received. */
let limitsNext = false
let upstream: Server
const startUpstream = async (): Promise<string> => {
  upstream = createServer((incoming, response) => {
    if (incoming.method === 'GET') return void response.writeHead(404).end()
    const { authorization = '', 'content-length': length } = incoming.headers
    const upload: Upload = { key: authorization, length: Number(length), bytes: 0, sum: '', isWhole: false }
    uploads.push(upload)
    const hash = createHash('sha256')
    incoming.on('data', (part: Buffer) => {
      upload.bytes += part.length
      hash.update(part)
    })
    incoming.on('end', () => {
      upload.isWhole = true
      upload.sum = hash.digest('hex')
      const isLimited = limitsNext
      limitsNext = false
      response.writeHead(isLimited ? 429 : 200, { 'content-type': 'application/json', 'retry-after': '60' })
      response.end(
        isLimited
          ? '{"error":{"message":"slow down"}}'
          : '{"text":"hi","usage":{"type":"tokens","input_tokens":1,"output_tokens":1}}',
      )
    })
  })
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
}

let gateway: Started
const env = (baseUrl: string) => ({
  PROVIDERS: 'voice',
  VOICE_API_KEY: 'sk-first-0123456789,sk-second-0123456789',
  VOICE_BASE_URL: baseUrl,
  VOICE_MODELS: 'hear',
})
let baseUrl = ''
before(async () => {
  baseUrl = await startUpstream()
  gateway = await start({ env: env(baseUrl) })
})
after(async () => {
  await gateway?.stop()
  upstream?.closeAllConnections()
  upstream?.close()
})

const BLOCK = Buffer.alloc(MB, Buffer.from(Array.from({ length: 251 }, (_, byte) => 255 - byte)))
const HEAD = Buffer.from(
  '--B\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\ncontent-type: audio/wav\r\n\r\n',
)
const tail = (model: string) =>
  Buffer.from(`\r\n--B\r\ncontent-disposition: form-data; name="model"\r\n\r\n${model}\r\n--B--\r\n`)

type Answer = { readonly status: number; readonly text: string; readonly header: (name: string) => string | undefined }

/** Uploads so many blocks, and `model` after them, as openai-node does. `headers` replace `content-length`. */
const upload = (
  to: Started,
  blocks: number,
  { headers, model = 'voice/hear' }: { headers?: Record<string, string>; model?: string } = {},
) =>
  new Promise<Answer>((resolve, reject) => {
    const end = tail(model)
    const length = HEAD.length + blocks * MB + end.length
    const sent = request(`${to.base}/audio/transcriptions`, {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=B', ...(headers ?? { 'content-length': length }) },
    })
    sent.on('error', reject)
    sent.on('response', async (response) => {
      let text = ''
      for await (const part of response) text += part
      const { statusCode: status = 0, headers: answered } = response
      resolve({ status, text, header: (name) => answered[name]?.toString() })
      sent.destroy()
    })
    sent.write(HEAD)
    let count = 0
    const next = (): void => {
      while (count++ < blocks) if (!sent.write(BLOCK)) return void sent.once('drain', next)
      sent.end(end)
    }
    next()
  })

/** What the upstream must receive. */
const expected = (blocks: number): { readonly length: number; readonly sum: string } => {
  const hash: Hash = createHash('sha256').update(HEAD)
  for (let count = 0; count < blocks; count++) hash.update(BLOCK)
  const end = tail('hear')
  return { length: HEAD.length + blocks * MB + end.length, sum: hash.update(end).digest('hex') }
}

/** kB of memory of a process. */
const memory = ({ child }: Started, member: 'VmRSS' | 'VmHWM'): number =>
  Number(new RegExp(`${member}:\\s+(\\d+)`).exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1])

const spoolFiles = ({ child, folder }: Started): number =>
  readdirSync(`/proc/${child.pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${child.pid}/fd/${fd}`).startsWith(join(folder, '.headgate', 'spool'))
    } catch {
      return false
    }
  }).length

const isLinux = process.platform === 'linux'

test('uploads: after a 429 the second key receives the same 90 MB, with the name of the model before', async () => {
  uploads.length = 0
  limitsNext = true
  const answer = await upload(gateway, 90)
  assert.equal(answer.status, 200, answer.text)
  assert.match(answer.header('x-headgate-trail') ?? '', /:429, .*:200/)
  const { length, sum } = expected(90)
  assert.deepEqual(
    uploads.map((one) => [one.length, one.bytes, one.sum]),
    [
      [length, length, sum],
      [length, length, sum],
    ],
  )
  assert.notEqual(uploads[0]?.key, uploads[1]?.key)
  assert.deepEqual(readdirSync(join(gateway.folder, '.headgate', 'spool')), [])
  if (isLinux) await until('the file is closed', () => spoolFiles(gateway) === 0)
})

test('uploads: 99 MB with the model after the file take at most 8 MB of memory', { skip: !isLinux }, async () => {
  for (let warm = 0; warm < 3; warm++) assert.equal((await upload(gateway, 99)).status, 200)
  const before = memory(gateway, 'VmRSS')
  let most = 0
  const timer = setInterval(() => {
    most = Math.max(most, memory(gateway, 'VmRSS'))
  }, 5)
  uploads.length = 0
  assert.equal((await upload(gateway, 99)).status, 200)
  clearInterval(timer)
  assert.equal(uploads.at(-1)?.sum, expected(99).sum)
  assert.ok(most > 0 && most - before <= 8 * 1024, `${most - before} kB more than ${before}`)
})

test('uploads: a form in chunks, without a length, is sent with one', async () => {
  uploads.length = 0
  assert.equal((await upload(gateway, 3, { headers: { 'transfer-encoding': 'chunked' } })).status, 200)
  assert.equal(uploads.at(-1)?.length, expected(3).length)
  assert.equal(uploads.at(-1)?.sum, expected(3).sum)
})

test('uploads: a form above the limit is refused before more is read', async () => {
  uploads.length = 0
  const answer = await upload(gateway, 101)
  assert.equal(answer.status, 413)
  assert.match(answer.text, /limit 100 MiB; limit.upload/)
  assert.equal(uploads.length, 0)
})

test('uploads: a client that leaves in the middle leaves no file and no call', { skip: !isLinux }, async () => {
  uploads.length = 0
  const { hostname, port } = new URL(gateway.base)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.on('error', () => {})
  socket.write(
    `POST ${new URL(gateway.base).pathname}/audio/transcriptions HTTP/1.1\r\nhost: localhost:${port}\r\ncontent-type: multipart/form-data; boundary=B\r\ncontent-length: ${50 * MB}\r\n\r\n`,
  )
  socket.write(HEAD)
  for (let count = 0; count < 5; count++) socket.write(BLOCK)
  await until('there is a file', () => spoolFiles(gateway) === 1)
  socket.destroy()
  await until('the file is closed', () => spoolFiles(gateway) === 0)
  assert.equal(uploads.length, 0)
  assert.equal((await upload(gateway, 3)).status, 200)
})

test('uploads: a full spool is 507 that SDKs do not retry, and frees itself', async () => {
  const small = await start({ env: { ...env(baseUrl), LIMIT_SPOOL_MEGABYTES: '5' } })
  try {
    const answer = await upload(small, 8)
    assert.equal(answer.status, 507)
    assert.equal(JSON.parse(answer.text).error.code, 'spool_full')
    assert.equal(answer.header('x-should-retry'), 'false')
    assert.equal((await upload(small, 3)).status, 200)
  } finally {
    await small.stop()
  }
})

test('uploads: without a spool forms are in memory, as large as other bodies', async () => {
  const none = await start({ env: { ...env(baseUrl), LIMIT_SPOOL_MEGABYTES: '0' } })
  try {
    uploads.length = 0
    assert.equal((await upload(none, 20)).status, 200)
    assert.equal(uploads.at(-1)?.sum, expected(20).sum)
    const answer = await upload(none, 33)
    assert.equal(answer.status, 413)
    assert.match(answer.text, /limit 32 MiB; limit.body/)
    assert.equal(existsSync(join(none.folder, '.headgate', 'spool')), false)
  } finally {
    await none.stop()
  }
})
