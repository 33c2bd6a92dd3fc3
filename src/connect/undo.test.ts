import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CLIENTS, type ClientRow } from './clients.ts'
import { ConfigTextError, editConfig, undoConfig } from './edit.ts'

const CONNECTION = {
  url: 'http://127.0.0.1:3000',
  key: 'client-key-0123456789',
  model: 'auto',
  now: '2026-11-27T00:00:00Z',
}

/** A file of the user with other values and a value that the connection replaces, and what is added to it later. */
const FILES: { readonly [format in ClientRow['format']]: { readonly text: string; readonly added: string } } = {
  json: { text: '{\n  "mine": 1, // one\n  "model": "old"\n}\n', added: '' },
  toml: {
    text: '# mine\nmodel = "old" # fast\nx = 1\n\n[mine]\ny = [\n  2,\n]\n',
    added: '\n[tui]\ntheme = "dark"\n',
  },
  yaml: { text: '# mine\nx: 1 # one\nmodel: old\n', added: 'later: true\n' },
  env: { text: '# mine\nX=1\nexport OPENAI_API_KEY=old\n', added: 'LATER=true\n' },
}

for (const row of CLIENTS)
  describe(`the connection is taken out of ${row.title}`, () => {
    const { text, added } = FILES[row.format]
    const changes = row.changes(CONNECTION)
    const undo = (now: string, original: string) => undoConfig(now, original, row, changes)

    test('of an unchanged file: the original', async () => {
      const connected = await editConfig(text, row, changes)
      assert.notEqual(connected, text)
      assert.equal(await undo(connected, text), text)
      assert.equal(await undo(await undo(connected, text), text), text, 'twice')
    })
    test('of a file that was added to: what was added stays', async () => {
      const connected = (await editConfig(text, row, changes)) + added
      assert.equal((await undo(connected, text)).replaceAll(/\n+/g, '\n'), (text + added).replaceAll(/\n+/g, '\n'))
    })
    test('of a new file: nothing of it stays', async () => {
      const undone = await undo(await editConfig('', row, changes), '')
      assert.match(undone, /^\s*(?:\{\s*\}\s*)?$/)
    })
    test('a value that was changed since stays', async () => {
      const connected = await editConfig(text, row, changes)
      const changed = connected.replaceAll('3000', '4000')
      assert.match(await undo(changed, text), /4000/)
    })
  })

test('a table that was there before comes back, and one that has more values stays', async () => {
  const row = CLIENTS.find(({ name }) => name === 'codex')
  assert.ok(row)
  const changes = row.changes(CONNECTION)
  const before = '[model_providers.headgate]\nname = "mine"\nbase_url = "http://old"\n'
  const connected = await editConfig(before, row, changes)
  assert.match(await undoConfig(connected, before, row, changes), /\nname = "mine"\nbase_url = "http:\/\/old"\n/)
  const more = `${await editConfig('', row, changes)}query_params = { a = "1" }\n`
  assert.equal(
    (await undoConfig(more, '', row, changes)).trim(),
    '[model_providers.headgate]\nquery_params = { a = "1" }',
  )
})

test('texts that cannot be read are refused', async () => {
  for (const [name, text] of [
    ['codex', 'a = "x\n'],
    ['continue', 'a: ['],
    ['claude', '{'],
  ] as const) {
    const row = CLIENTS.find((one) => one.name === name)
    assert.ok(row)
    await assert.rejects(undoConfig(text, '', row, row.changes(CONNECTION)), ConfigTextError)
  }
})
