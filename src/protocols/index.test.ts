import assert from 'node:assert/strict'
import { test } from 'node:test'
import { STYLE_PATHS } from '../core/request-styles.ts'
import { clientProtocolByStyle } from './index.ts'

test('protocols: the styles of the core are those of the client formats, with their paths, and embeddings', () => {
  const stated = [...clientProtocolByStyle].map(([style, { path }]) => [style, path])
  assert.deepEqual(Object.fromEntries([...stated, ['embeddings', '/embeddings']]), STYLE_PATHS)
})
