/** Clients that use one account of a provider reach the objects of their team, or of their key, and no others: with a file and with Postgres. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { type PostgresServer, skipPostgres, startPostgres } from '../support/postgres.ts'
import { type Started, start } from './support/process.ts'

const KEYS = { ann: 'sk-ann-0123456789abcdef00', ben: 'sk-ben-0123456789abcdef00', eve: 'sk-eve-0123456789abcdef00' }
type Name = keyof typeof KEYS

/** A vendor with files and batches, which knows no clients. */
const vendor = () => {
  const files = new Map<string, string>()
  const batches = new Map<string, { id: string; input_file_id: string; output_file_id: string | null }>()
  let number = 0
  return createServer(async (req, res): Promise<unknown> => {
    const parts: Buffer[] = []
    for await (const part of req) parts.push(part)
    const body = Buffer.concat(parts).toString()
    const { pathname } = new URL(req.url ?? '', 'http://x')
    const [, , kind, id, verb] = pathname.split('/')
    const send = (value: unknown, status = 200) =>
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    const list = (all: readonly object[]) =>
      send({ object: 'list', data: all, first_id: 'x', last_id: 'y', has_more: false })
    if (kind === 'files' && req.method === 'POST') {
      const made = `file-${++number}abcdef`
      files.set(made, body)
      return send({ id: made, object: 'file' })
    }
    if (kind === 'files' && !id) return list([...files.keys()].map((one) => ({ id: one, object: 'file' })))
    if (kind === 'files' && id && verb === 'content')
      return res.writeHead(200, { 'content-type': 'application/octet-stream' }).end(files.get(id))
    if (kind === 'files' && id) return files.has(id) ? send({ id, object: 'file' }) : send({ error: {} }, 404)
    if (kind === 'batches' && req.method === 'POST') {
      const made = {
        id: `batch_${++number}abcdef`,
        input_file_id: JSON.parse(body).input_file_id,
        output_file_id: null,
      }
      batches.set(made.id, made)
      return send(made)
    }
    if (kind === 'batches' && id) {
      const output = `file-out${id.slice(6)}`
      files.set(output, 'output')
      return send({ ...batches.get(id), status: 'completed', output_file_id: output })
    }
    return send({ data: [{ id: 'gpt-5', object: 'model' }] })
  })
}

for (const [engine, skip] of [
  ['a file', false],
  ['Postgres', skipPostgres],
] as const)
  describe(`objects of passed calls in ${engine}`, { concurrency: false, skip }, () => {
    const upstream = vendor()
    let gateway: Started
    let server: PostgresServer | null = null
    before(async () => {
      await once(upstream.listen(0, '127.0.0.1'), 'listening')
      const base = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
      const access = 'access: { passThrough: [openai, own, shared] }'
      const pass = (more: string) => `passThrough: { paths: ["/v1/**"], charge: "0"${more} }`
      if (engine === 'Postgres') server = await startPostgres()
      gateway = await start({
        ...(server && { env: { DATABASE_URL: server.url } }),
        files: {
          'headgate.yaml': `providers:
  openai: { baseUrl: "${base}", keys: [sk-up], ${pass('')} }
  own: { kind: openai, baseUrl: "${base}", keys: [sk-up], ${pass(', isolate: key')} }
  shared: { kind: openai, baseUrl: "${base}", keys: [sk-up], ${pass(', isolate: none')} }
teams: { a: { ${access} }, b: { ${access} } }
keys:
  ann: { team: a, secret: ${KEYS.ann}, ${access} }
  ben: { team: a, secret: ${KEYS.ben}, ${access} }
  eve: { team: b, secret: ${KEYS.eve}, ${access} }
`,
        },
      })
    })
    after(async () => {
      await gateway?.stop()
      upstream.close()
      await server?.remove()
    })

    const call = async (who: Name, path: string, body?: unknown) => {
      const response = await fetch(gateway.url + path, {
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          authorization: `Bearer ${KEYS[who]}`,
          ...(typeof body === 'object' && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      })
      const text = await response.text()
      return { status: response.status, text, json: text.startsWith('{') ? JSON.parse(text) : {} }
    }
    const idsOf = async (who: Name, path: string) =>
      (await call(who, path)).json.data.map(({ id }: { id: string }) => id)

    test('a team reaches its own objects, in paths, queries and bodies', async () => {
      const { id } = (await call('ann', '/openai/v1/files', 'secret of a')).json
      for (const who of ['ann', 'ben'] as const) {
        assert.equal((await call(who, `/openai/v1/files/${id}`)).status, 200)
        assert.equal((await call(who, `/openai/v1/files/${id}/content`)).text, 'secret of a')
        assert.equal((await call(who, `/openai/v1/files?after=${id}`)).status, 200)
      }
      for (const path of [`/files/${id}`, `/files/${id}/content`, `/files?after=${id}`, '/files/file-unknown1'])
        assert.equal((await call('eve', `/openai/v1${path}`)).status, 404, path)
      const refused = await call('eve', '/openai/v1/batches', { input_file_id: id, endpoint: '/v1/chat/completions' })
      assert.equal(refused.status, 404)
      const hidden = await call('eve', '/openai/v1/other', { deep: [{ content: [{ attachment: id }] }] })
      assert.equal(hidden.status, 404)
      assert.ok(!refused.text.includes(id))
      const batch = (await call('ben', '/openai/v1/batches', { input_file_id: id })).json
      assert.equal((await call('eve', `/openai/v1/batches/${batch.id}`)).status, 404)
      const { output_file_id: output } = (await call('ann', `/openai/v1/batches/${batch.id}`)).json
      assert.equal((await call('ann', `/openai/v1/files/${output}/content`)).text, 'output')
      assert.equal((await call('eve', `/openai/v1/files/${output}/content`)).status, 404)
    })

    test('lists have the objects of the team', async () => {
      const { id } = (await call('eve', '/openai/v1/files', 'secret of b')).json
      assert.deepEqual(await idsOf('eve', '/openai/v1/files'), [id])
      const ofTeam = await idsOf('ann', '/openai/v1/files')
      assert.ok(ofTeam.length >= 2 && !ofTeam.includes(id))
      assert.deepEqual(await idsOf('eve', '/own/v1/models'), ['gpt-5'])
    })

    test('`isolate: key` separates the keys of a team, `none` separates nothing', async () => {
      const { id } = (await call('ann', '/own/v1/files', 'of ann')).json
      assert.equal((await call('ann', `/own/v1/files/${id}`)).status, 200)
      assert.equal((await call('ben', `/own/v1/files/${id}`)).status, 404)
      assert.deepEqual(await idsOf('ben', '/own/v1/files'), [])
      assert.equal((await call('eve', `/shared/v1/files/${id}`)).status, 200)
      assert.ok((await idsOf('eve', '/shared/v1/files')).length > 2)
    })
  })
