import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { CLIENTS_FOLDER, clientPages } from './client-pages.ts'

/** Pages about more than the settings of a client. */
const BY_HAND = ['claude-cloud.md', 'claude-gateway.md']

test('docs/clients has a current page for every client, and no other', async () => {
  const pages = await clientPages()
  const written = globSync('*', { cwd: CLIENTS_FOLDER }).filter((name) => !BY_HAND.includes(name))
  assert.deepEqual(written.toSorted(), [...pages.keys()].toSorted())
  for (const [name, text] of pages)
    assert.equal(readFileSync(join(CLIENTS_FOLDER, name), 'utf8'), text, `${name}: run npm run client-pages`)
})
