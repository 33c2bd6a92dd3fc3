/** The rows of `equivalent.ts` match the code they describe. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { EQUIVALENT } from './equivalent.ts'

const root = join(import.meta.dirname, '..', '..')

for (const { file, before, line = '' } of EQUIVALENT)
  test(`mutation: ${file} contains ${before}${line === '' ? '' : ` in a line with ${line}`}`, () => {
    const code = readFileSync(join(root, file), 'utf8')
    // Code of several lines is searched in the whole file.
    const texts = line === '' ? [code] : code.split('\n').filter((text) => text.includes(line))
    assert.ok(texts.some((text) => text.includes(before)))
  })
