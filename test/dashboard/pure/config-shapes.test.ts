/** The text of Configuration, and the bodies of Routes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { omittedParts, type ShownConfig, valueText, yamlOf } from '../../../dashboard/src/pages/config/shapes.ts'

const setting = (name: string, value: unknown, origin: string) => ({ name, value, origin, variable: '', about: '' })
const CONFIG: ShownConfig = {
  stale: false,
  settings: [
    setting('circuit.timeout', 7_000, 'headgate.yaml:2'),
    setting('circuit.window', 60_000, 'default'),
    setting('auth.pepper', 'set', 'headgate.yaml:4'),
    setting('auth.keys', '2 values', 'headgate.yaml:5'),
    setting('fallback', 'none', 'headgate.yaml:6'),
    setting('retry.maxAttempts', 4, 'env'),
  ],
  providers: [{ id: 'own', kind: 'openai', base_url: 'http://x', keys: [], models: ['m'], origin: 'headgate.yaml:7' }],
  routes: [
    {
      name: 'quick: "one"',
      targets: [
        { provider: 'demo', model: 'echo', weight: 1 },
        { provider: 'own', weight: 3 },
      ],
      origin: 'headgate.yaml:9',
    },
  ],
  accounts: [],
}

test('the text has what the file sets, and no masked value', () => {
  assert.equal(
    yamlOf(CONFIG, ['A copy']),
    [
      '# A copy',
      'circuit:',
      '  timeout: 7000',
      'fallback: "none"',
      'providers:',
      '  "own":',
      '    kind: "openai"',
      '    baseUrl: "http://x"',
      '    models: ["m"]',
      'routes:',
      '  "quick: \\"one\\"":',
      '    targets:',
      '      - "demo/echo"',
      '      - {"provider":"own","weight":3}',
      '',
    ].join('\n'),
  )
  assert.deepEqual(omittedParts(CONFIG), [
    'auth.pepper',
    'auth.keys',
    'keys, styles, aggregate and variables of providers',
  ])
})

test('values are shown as text', () => {
  assert.deepEqual([null, 5, 'any', ['a', 'b'], { a: 1 }, false].map(valueText), [
    null,
    '5',
    'any',
    'a, b',
    '{"a":1}',
    'false',
  ])
})
