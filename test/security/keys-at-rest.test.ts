/** A thousand secrets of clients and operators: made, imported, rotated and used. None of them is stored or shown again. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { keysIn } from '../../src/policy/accounts/client-key.ts'
import { post, type Started, start } from '../e2e/support/process.ts'
import { verb } from '../e2e/support/verb.ts'

const ADMIN = 'admin-canary-0123456789abcdef'
const PEPPER = 'a pepper of some length 0123'
/** Of each half: with a pepper and without. */
const COUNTS = { keys: 300, rotated: 60, imported: 100, tokens: 40 }
const TOTAL = 1_000

/** A number as letters, because names with some digits are refused. */
const lettersOf = (n: number): string => [...String(n)].map((digit) => 'abcdefghij'[Number(digit)]).join('')

const inParallel = async <T>(items: readonly T[], run: (item: T, at: number) => Promise<void>) => {
  let next = 0
  const work = async () => {
    while (next < items.length) {
      const at = next++
      await run(items[at] as T, at) // The index is below the length.
    }
  }
  await Promise.all(Array.from({ length: 16 }, work))
}
const range = (count: number) => Array.from({ length: count }, (_, at) => at)

type Secrets = { readonly clients: string[]; readonly tokens: string[] }

/** Makes secrets over the admin API. */
const makeSecrets = async ({ url }: Started, half: string): Promise<Secrets> => {
  const clients: string[] = []
  const tokens: string[] = []
  let writes = 0
  const write = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${ADMIN}`, 'idempotency-key': `${half}-${writes++}` }
    const { status, text, json } = await post(`${url}/admin/api/v1${path}`, body, headers)
    assert.ok(status === 200 || status === 201, text)
    return json()
  }
  await inParallel(range(COUNTS.keys), async (n) => {
    const { id, secret } = await write('/keys', { name: `${half} made ${lettersOf(n)}` })
    clients.push(secret)
    if (n < COUNTS.rotated) clients.push((await write(`/keys/${id}/rotate`, { overlap: '24h' })).secret)
  })
  await inParallel(range(COUNTS.imported), async (n) => {
    const secret = `sk-imported-${half}-${n}-${'k'.repeat(20)}`
    await write('/keys', { name: `${half} imported ${lettersOf(n)}`, secret })
    clients.push(secret)
  })
  await inParallel(range(COUNTS.tokens), async (n) => {
    tokens.push((await write('/tokens', { name: `${half} ${lettersOf(n)}`, bindings: [{ role: 'viewer' }] })).secret)
  })
  return { clients, tokens }
}

/** Uses each secret, also where it does not belong. */
const useSecrets = async ({ url, base }: Started, { clients, tokens }: Secrets) => {
  await inParallel(clients, async (secret, at) => {
    const messages = [{ role: 'user', content: secret.startsWith('hgk_') ? `My key is ${secret}` : 'hello' }]
    const headers = at % 2 === 0 ? { authorization: `Bearer ${secret}` } : { 'x-api-key': secret }
    const { status, text } = await post(`${base}/chat/completions`, { model: 'demo/echo', messages }, headers)
    assert.equal(status, 200, text)
    // As the name of a model, and in a path.
    if (at % 10 === 0) await post(`${base}/chat/completions`, { model: secret, messages: [] }, headers)
    if (at % 10 === 1) await (await fetch(`${base}/responses/${secret}`, { headers })).arrayBuffer()
  })
  await inParallel(tokens, async (secret) => {
    const response = await fetch(`${url}/admin/api/v1/keys?limit=200`, {
      headers: { authorization: `Bearer ${secret}` },
    })
    assert.equal(response.status, 200, await response.text())
  })
}

/** All that the gateway shows about keys, tokens and requests. */
const shownBy = async ({ url }: Started): Promise<readonly string[]> => {
  const pages: string[] = []
  for (const list of ['/keys', '/tokens', '/audit', '/requests', '/requests/facets'])
    for (let after = ''; ; ) {
      const paging = list.endsWith('facets') ? '' : `?limit=200${after}`
      const response = await fetch(`${url}/admin/api/v1${list}${paging}`, {
        headers: { authorization: `Bearer ${ADMIN}` },
      })
      const text = await response.text()
      assert.equal(response.status, 200, text)
      pages.push(text)
      const { next } = JSON.parse(text)
      if (typeof next !== 'string') break
      after = `&after=${encodeURIComponent(next)}`
    }
  return pages
}

const filesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))

/** Kept bodies and headers are compressed. */
const readable = (_name: string, value: unknown): unknown =>
  value instanceof Uint8Array && Buffer.from(value.subarray(0, 4)).toString('hex') === '28b52ffd'
    ? zstdDecompressSync(value).toString()
    : value

/** Every row of every table. */
const dumpOf = (file: string): string => {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all()
    return tables
      .map(({ name }) => JSON.stringify(database.prepare(`SELECT * FROM "${name}"`).all(), readable))
      .join('\n')
  } finally {
    database.close()
  }
}

test('keys at rest: of 1,000 secrets none is in the databases, their dumps, the journal, a backup, the log or an answer', {
  timeout: 300_000,
}, async (t) => {
  const place = mkdtempSync(join(tmpdir(), 'headgate-canaries-'))
  const data = join(place, 'data')
  const secrets: string[] = []
  const texts = new Map<string, string>()
  try {
    for (const pepper of [undefined, PEPPER]) {
      const half = pepper === undefined ? 'plain' : 'peppered'
      const env = { DATA_DIR: data, AUTH_ADMIN: ADMIN, BODIES_SAMPLE: '1', ...(pepper && { AUTH_PEPPER: pepper }) }
      await using gateway = await start({ env })
      const made = await makeSecrets(gateway, half)
      secrets.push(...made.clients, ...made.tokens)
      await useSecrets(gateway, made)
      texts.set(`answers, ${half}`, (await shownBy(gateway)).join('\n'))
      const archive = join(place, `${half}.tar.gz`)
      const backup = await verb(['backup', archive], { env })
      assert.equal(backup.code, 0, backup.stderr)
      texts.set(`backup, ${half}`, gunzipSync(readFileSync(archive)).toString('latin1'))
      const yaml = await verb(['export', '--yaml'], { env })
      assert.equal(yaml.code, 0, yaml.stderr)
      texts.set(`export, ${half}`, yaml.stdout)
      assert.equal(await gateway.stop(), 0)
      texts.set(`output, ${half}`, gateway.output())
    }
    for (const file of filesIn(data)) {
      texts.set(file, readFileSync(file, 'latin1'))
      if (file.endsWith('.db')) texts.set(`dump of ${file}`, dumpOf(file))
    }
    assert.equal(new Set(secrets).size, TOTAL)
    for (const file of ['control.db', 'usage.db', 'bodies.db'])
      assert.ok((texts.get(`dump of ${join(data, file)}`) ?? '').length > 10_000, file)
    assert.match(texts.get(`dump of ${join(data, 'bodies.db')}`) ?? '', /x-api-key\\":\\"\[masked\]/)
    t.diagnostic([...texts].map(([name, { length }]) => `${name.replace(data, '')}: ${length}`).join(', '))
    for (const [name, text] of texts) {
      assert.deepEqual(
        keysIn(text).map((secret) => secret.slice(-4)),
        [],
        name,
      )
      // The last four characters are shown.
      for (const secret of secrets) assert.ok(!text.includes(secret.slice(4, -4)), `…${secret.slice(-4)} is in ${name}`)
      for (const own of [ADMIN, PEPPER]) assert.ok(!text.includes(own), `${own} is in ${name}`)
    }
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
})
