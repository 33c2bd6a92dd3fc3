import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { parse as parseYaml } from 'yaml'
import type { Json } from '../core/json.ts'
import { diffLines, maskLine } from './diff.ts'
import { readJsonText, setJson } from './edit-json.ts'
import { setToml } from './edit-toml.ts'
import { setYaml } from './edit-yaml.ts'
import { undoneJson, valuesIn } from './undo-json.ts'

describe('JSON with comments', () => {
  for (const [what, before, after] of [
    ['an empty text', '', '{\n  "env": {\n    "URL": "x"\n  }\n}\n'],
    ['an empty object', '{}', '{\n  "env": {\n    "URL": "x"\n  }\n}'],
    ['a member to add', '{\n  "a": 1 // one\n}\n', '{\n  "a": 1, // one\n  "env": {\n    "URL": "x"\n  }\n}\n'],
    ['a comma at the end', '{\n\t"a": 1, // one\n}\n', '{\n\t"a": 1, // one\n\t"env": {\n\t\t"URL": "x"\n\t}\n}\n'],
    ['a value to replace', '{ "env": { "URL": "old" /* here */ } }', '{ "env": { "URL": "x" /* here */ } }'],
    ['one line', '{ "env": { "A": "1" } }', '{ "env": { "A": "1", "URL": "x" } }'],
    ['a scalar on the way', '{\n  "env": null,\n  "z": 1\n}', '{\n  "env": {\n    "URL": "x"\n  },\n  "z": 1\n}'],
    [
      'line ends of Windows',
      '{\r\n  "a": 1\r\n}\r\n',
      '{\r\n  "a": 1,\r\n  "env": {\r\n    "URL": "x"\r\n  }\r\n}\r\n',
    ],
    [
      'brackets in strings and comments',
      '{\n  "a": "}{" // }\n}\n',
      '{\n  "a": "}{", // }\n  "env": {\n    "URL": "x"\n  }\n}\n',
    ],
  ] as const)
    test(`${what}: only the value changes`, () => {
      assert.equal(setJson(before, ['env', 'URL'], 'x'), after)
      assert.equal(JSON.stringify(readJsonText(after).env).includes('"URL":"x"'), true)
    })

  for (const text of ['[]', '{', '{"a" 1}', '{"a": 1} x', 'nothing', '{"a": "b}', '{"a": [1 2]}'])
    test(`${text} is refused`, () => {
      assert.throws(() => setJson(text, ['a'], 1), /line \d+ is not JSON/)
    })

  test('any object keeps all its other members', () => {
    const name = fc.constantFrom('a', 'b', 'c"', 'd e')
    const value: fc.Arbitrary<Json> = fc.letrec<{ tree: Json }>((tie) => ({
      tree: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom<Json>(1, null, true, 'x}', '// no comment', ',}'),
        fc.dictionary(name, tie('tree'), { noNullPrototype: true }),
        fc.array(tie('tree'), { maxLength: 3 }),
      ),
    })).tree
    const object = fc.dictionary(name, value, { noNullPrototype: true })
    const path = fc.array(name, { minLength: 1, maxLength: 3 })
    fc.assert(
      fc.property(object, path, value, fc.constantFrom(0, 2, '\t'), (before, steps, now, space) => {
        const text = `// first\n${JSON.stringify(before, null, space)}\n`
        assert.deepEqual(readJsonText(setJson(text, steps, now)), withValue(before, steps, now))
      }),
    )
  })
})

const withValue = (before: Json, [step, ...rest]: readonly string[], value: Json): Json => {
  if (step === undefined) return value
  const object = typeof before === 'object' && before !== null && !Array.isArray(before) ? before : {}
  // biome-ignore lint/suspicious/noExplicitAny: the members of a JSON object
  return { ...object, [step]: withValue((object as any)[step] ?? null, rest, value) }
}

describe('TOML', () => {
  const provider = { name: 'Headgate', http_headers: { Authorization: 'Bearer k' } }
  const TABLE = '[model_providers.headgate]\nname = "Headgate"\nhttp_headers = { Authorization = "Bearer k" }\n'
  for (const [what, before, after] of [
    ['an empty text', '', `model = "m"\n\n${TABLE}`],
    [
      'values before a table',
      '# mine\nmodel = "o3" # fast\nx = 1\n\n[t]\nmodel = 2\n',
      `# mine\nmodel = "m"\nx = 1\n\n[t]\nmodel = 2\n\n${TABLE}`,
    ],
    ['only tables', '# top\n[t]\na = 1\n', `model = "m"\n\n# top\n[t]\na = 1\n\n${TABLE}`],
    [
      'brackets and quotes over several lines',
      'notify = [\n  "a", # [x]\n  ["b"],\n]\ntext = """\n[model_providers.headgate]\nmodel = "no"\n"""\n',
      `notify = [\n  "a", # [x]\n  ["b"],\n]\ntext = """\n[model_providers.headgate]\nmodel = "no"\n"""\nmodel = "m"\n\n${TABLE}`,
    ],
    [
      'the table with another content',
      'model = "m"\n\n[model_providers."headgate"]\nname = "old"\n\n[model_providers.headgate.query_params]\nx = "1"\n\n# next\n[after]\na = 1\n',
      `model = "m"\n\n${TABLE}\n# next\n[after]\na = 1\n`,
    ],
  ] as const)
    test(`${what}: only the values change`, () => {
      const once = setToml(setToml(before, ['model'], 'm'), ['model_providers', 'headgate'], provider)
      assert.equal(once, after)
      assert.equal(setToml(setToml(once, ['model'], 'm'), ['model_providers', 'headgate'], provider), once)
    })

  test('a table written as a value, and a string without an end, are refused', () => {
    for (const text of ['model_providers = { a = 1 }\n', 'model_providers.a.b = 1\n', 'a = "x\n'])
      assert.throws(() => setToml(text, ['model_providers', 'headgate'], provider), { name: 'Error' })
  })
})

describe('YAML', () => {
  const entry = { path: ['models'], entryBy: 'name', value: { name: 'Headgate', model: 'm' } }
  test('an entry is added to a list, and replaced by the same name', () => {
    const before = '# mine\nname: x # why\n\nmodels:\n- name: other\n  model: o\n'
    const after = setYaml(before, [entry])
    assert.equal(after, `${before}- name: Headgate\n  model: m\n`)
    assert.equal(setYaml(after, [entry]), after)
  })
  test('values are set at the top', () => {
    const after = setYaml('# only a comment\n', [{ path: ['openai-api-base'], value: 'http://x/v1' }])
    assert.match(after, /^# only a comment\n/)
    assert.deepEqual(parseYaml(after), { 'openai-api-base': 'http://x/v1' })
  })
  for (const text of ['a: [', '- a\n', 'a: 1\na: 2\n'])
    test(`${JSON.stringify(text)} is refused`, () => {
      assert.throws(() => setYaml(text, [entry]), { name: 'YamlTextError' })
    })
})

describe('the difference', () => {
  test('has changed lines with two lines around them', () => {
    assert.deepEqual(diffLines('1\n2\n3\n4\n5\n6\n', '1\n2\n3\n4\nx\n6\n', []), [
      '…',
      '  3',
      '  4',
      '- 5',
      '+ x',
      '  6',
    ])
    assert.deepEqual(diffLines('a\n', 'a\n', []), [])
    assert.deepEqual(diffLines('', 'a\n', []), ['+ a'])
  })
  for (const line of [
    '"ANTHROPIC_AUTH_TOKEN": "canary-secret"',
    '"apiKey": "canary-secret"',
    'api_key = "canary-secret"',
    'openai-api-key: canary-secret',
    "OPENAI_API_KEY='canary-secret'",
    'http_headers = { Authorization = "Bearer canary-secret" }',
    'x: Bearer canary-secret',
    'url: http://x?k=canary-secret',
  ])
    test(`masks ${line}`, () => {
      assert.doesNotMatch(maskLine(line, line.startsWith('url') ? ['canary-secret'] : []), /canary/)
    })

  test('a number of tokens is no secret', () => {
    for (const line of [
      '"max_tokens": 128000,',
      'http_headers = { Authorization = "Bearer any" }',
      '"tokenSource": "manual",',
      'credentialStore = keychain',
      '"apiKey": "any"',
    ])
      assert.equal(maskLine(line, []), line)
    assert.equal(maskLine('"password": "hunter",', []), '"password": [redacted],')
    assert.equal(maskLine('"token": 1234567890123456', []), '"token": [redacted]')
  })
})

test('the values of a connection are taken out of a JSON file that was rewritten', () => {
  const cases: readonly (readonly [original: string, rewritten: (text: string) => string, left: object])[] = [
    ['{}', (text) => text, {}],
    ['{}', (text) => JSON.stringify({ ...JSON.parse(text), $version: 4 }), { $version: 4 }],
    ['{"env":{"A":"1"},"url":"old"}', (text) => text, { env: { A: '1' }, url: 'old' }],
    // A value that the user has changed since stays.
    ['{}', (text) => text.replace('k-1', 'mine'), { env: { deep: { KEY: 'mine' } } }],
    ['{"env":{}}', (text) => text, { env: {} }],
    // What the user had before stays, although it is what was written.
    ['{"url":"new","env":{"deep":{"KEY":"k-1"}}}', (text) => text, { url: 'new', env: { deep: { KEY: 'k-1' } } }],
  ]
  const changes = [
    { path: ['url'], value: 'new' },
    { path: ['env', 'deep'], value: { KEY: 'k-1', other: [1, 2] } },
  ]
  for (const [original, rewritten, left] of cases) {
    const text = rewritten(changes.reduce((now, { path, value }) => setJson(now, path, value), original))
    assert.deepEqual(readJsonText(undoneJson(text, readJsonText(original), valuesIn(changes))), left, text)
  }
})
