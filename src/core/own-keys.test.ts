import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maskOwnKeys } from './own-keys.ts'

test('own keys: whole and truncated keys are masked, and other texts stay as they are', () => {
  const key = `hgk_${'aB3'.repeat(13).slice(0, 38)}`
  assert.equal(maskOwnKeys(`no model "${key}", hga_${'x'.repeat(38)}`), 'no model "hgk_[key]", hga_[key]')
  assert.equal(maskOwnKeys(`x_${key.slice(0, 20)}…`), 'x_hgk_[key]…')
  for (const text of ['', 'hgk_', 'keys begin with hgk_ or hga_', 'hgk_short', 'a model'])
    assert.equal(maskOwnKeys(text), text)
})
