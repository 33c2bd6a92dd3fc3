import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { isFrom, quoted, SDKS, testLine, variableLine, variablesIn } from '../../../dashboard/src/connect/lines.ts'

const address = { url: 'http://127.0.0.1:3000', key: 'any', model: "it's \\ $HOME" }

test('values of variables are one word of each shell', () => {
  assert.equal(variableLine('sh', ['A', "it's"]), `export A='it'\\''s'`)
  assert.equal(variableLine('fish', ['A', "it's \\"]), `set -gx A 'it\\'s \\\\'`)
  assert.equal(variableLine('powershell', ['A', "it's $x"]), `$env:A = 'it''s $x'`)
  assert.equal(variableLine('sh', ['A', 'http://127.0.0.1:3000/v1']), 'export A=http://127.0.0.1:3000/v1')
})

test('sh reads a quoted text as it was', () => {
  for (const text of ["it's", '$HOME `id` "x" \\', 'a\nb', '{"a":1}', '*'])
    assert.equal(execFileSync('sh', ['-c', `printf %s ${quoted('sh', text)}`], { encoding: 'utf8' }), text)
})

test('the test line has the model in a JSON body', () => {
  for (const style of ['chat', 'responses', 'messages'] as const) {
    const line = testLine('sh', style, address).replace(/^curl/, 'printf "%s\\n"')
    const body = execFileSync('sh', ['-c', line], { encoding: 'utf8' }).trim().split('\n').at(-1) ?? ''
    assert.equal(JSON.parse(body).model, address.model)
    assert.match(testLine('powershell', style, address), /^Invoke-RestMethod 'http:.*it''s/)
  }
})

test('variables are found in lines and in JSON files', () => {
  assert.deepEqual(variablesIn('env', 'A=b\nC=\'{"d":"e=f"}\'\n'), [
    ['A', 'b'],
    ['C', '{"d":"e=f"}'],
  ])
  assert.deepEqual(variablesIn('json', '{"env":{"A":"b"}}'), [['A', 'b']])
  assert.deepEqual(variablesIn('json', '{"a":{}}'), [])
  assert.deepEqual(variablesIn('toml', 'a = 1'), [])
})

test('programs contain the model as a string', () => {
  for (const { program } of SDKS) if (program) assert.ok(program(address).includes(JSON.stringify(address.model)))
})

test('clients are recognised by the families of their SDKs', () => {
  assert.ok(isFrom('claude', 'claude-code') && isFrom('aider', 'litellm') && isFrom('curl', 'curl'))
  assert.ok(!isFrom('claude', 'codex'))
})
