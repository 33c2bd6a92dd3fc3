// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to variables are under test
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, loaded } from '../../test/support/config.ts'
import { describeChange } from './describe.ts'

const fileWith = (members: string) => `providers:\n  openai:\n    keys: [ k ]\n${members}`

test('headers of a provider: values name variables, and names are compared in lower case', () => {
  const yaml = fileWith(
    '    headers: { X-Gate: "Bearer ${GATE}", x-app: a b }\n    forwardHeaders: [ X-Team, x-team, X-App ]\n',
  )
  const { config } = loaded({ env: { GATE: 'gate-token-1' }, yaml })
  const [openai] = config.instances
  assert.deepEqual(
    Object.entries(openai?.headers ?? {}).map(([name, value]) => [name, value.reveal()]),
    [
      ['x-gate', 'Bearer gate-token-1'],
      ['x-app', 'a b'],
    ],
  )
  // What the operator has set is not forwarded.
  assert.deepEqual(openai?.forwardHeaders, ['x-team'])
  assert.doesNotMatch(JSON.stringify(config), /gate-token-1/)
})

const refused: readonly (readonly [members: string, problem: RegExp])[] = [
  [
    '    headers: { Authorization: x }\n',
    /^headgate\.yaml:4:16: providers\.openai\.headers: found the header "authorization", which the gateway sets itself; allowed: other headers; the credential belongs to keys$/,
  ],
  ['    headers: { Content-Type: x }\n', /"content-type", which the gateway sets itself/],
  ['    headers: { HOST: x }\n', /"host", which the gateway sets/],
  ['    headers: { Content-Length: "1" }\n', /"content-length"/],
  ['    headers: { Transfer-Encoding: chunked }\n', /"transfer-encoding"/],
  ['    headers: { Proxy-Authorization: x }\n', /"proxy-authorization"/],
  ['    headers: { x-amz-date: x }\n', /"x-amz-date"/],
  ['    headers: { "a b": x }\n', /found "a b"; allowed: the name of a header/],
  ['    headers: { X-A: "a", x-a: "b" }\n', /the header "x-a" twice/],
  ['    headers: { X-A: "canary\\nx: y" }\n', /a value of "x-a" with line breaks/],
  ['    headers: { X-A: "canary ü" }\n', /a value of "x-a" with line breaks or other than ASCII/],
  ['    headers: [ a ]\n', /headers/],
  ['    headers: { X-A: "${UNSET}" }\n', /\$\{UNSET\}, which is not set/],
  ['    forwardHeaders: [ x-api-key ]\n', /"x-api-key", which may contain a key of the gateway/],
  ['    forwardHeaders: [ Cookie ]\n', /"cookie", which may contain/],
  [
    '    forwardHeaders: [ X-Forwarded-For ]\n',
    /"x-forwarded-for", which may contain a key of the gateway or name the client/,
  ],
  ['    forwardHeaders: [ content-type ]\n', /"content-type", which the gateway sets itself/],
]
for (const [members, problem] of refused)
  test(`headers of a provider: ${members.trim()} is refused`, () => {
    const found = lines({ env: {}, yaml: fileWith(members) })
    assert.match(found.join('\n'), problem)
    assert.doesNotMatch(found.join('\n'), /canary/)
  })

test('headers of a provider: a format that the gateway writes keeps its own headers', () => {
  const yaml =
    'providers: { anthropic: { keys: [ k ], headers: { anthropic-version: "2023-01-01", anthropic-beta: x } } }\n'
  assert.match(lines({ env: {}, yaml }).join(), /"anthropic-version", which the gateway sets itself/)
  assert.doesNotMatch(lines({ env: {}, yaml }).join(), /anthropic-beta/)
})

test('headers of a provider: a reload names what has changed, without values', () => {
  const at = (members: string) => loaded({ env: {}, yaml: fileWith(members) }).config
  const before = at('    headers: { x-a: canary-one }\n')
  assert.deepEqual(describeChange(before, at('    headers: { x-a: canary-two }\n')), [
    'providers.openai.headers: changed x-a',
  ])
  assert.deepEqual(describeChange(before, at('    headers: { x-a: canary-one, x-b: b }\n')), [
    'providers.openai.headers: x-a → x-a, x-b',
  ])
  assert.deepEqual(describeChange(before, at('    headers: { x-a: canary-one }\n    forwardHeaders: [ x-c ]\n')), [
    'providers.openai.forwardHeaders: none → x-c',
  ])
})
