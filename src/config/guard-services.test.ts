import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, loaded } from '../../test/support/config.ts'

const yaml = (service: string, more = 'action: block') => `guards:\n  shield: { ${more}, service: ${service} }\n`
const serviceIn = (service: string, more?: string) => {
  const [rule] = loaded({ env: {}, yaml: yaml(service, more) }).config.guards ?? []
  assert.ok(rule?.service)
  return rule.service
}

test('guard services: defaults of each kind', () => {
  const headgate = serviceIn('{ kind: headgate, url: "http://guard:8080/check?code=canary", secret: whsec_canary }')
  assert.ok(headgate.kind === 'headgate')
  assert.equal(headgate.url.reveal(), 'http://guard:8080/check?code=canary')
  assert.equal(headgate.secret?.reveal(), 'whsec_canary')
  assert.deepEqual([headgate.timeout, headgate.onError, headgate.facts], [2_000, 'block', null])
  const { parameters } = {
    parameters: null,
    ...serviceIn('{ kind: litellm, url: "http://g", parameters: { a: [ 1 ] } }'),
  }
  assert.deepEqual(parameters, { a: [1] })
  const moderation = serviceIn('{ kind: moderation, headers: { Authorization: Bearer x } }')
  assert.ok(moderation.kind === 'moderation')
  assert.equal(moderation.url.reveal(), 'https://api.openai.com/v1')
  assert.equal(moderation.headers.authorization?.reveal(), 'Bearer x')
  assert.deepEqual([moderation.model, moderation.thresholds], ['omni-moderation-latest', {}])
  const presidio = serviceIn('{ kind: presidio, url: "http://p", facts: { region: eu } }', 'action: mask')
  assert.ok(presidio.kind === 'presidio')
  assert.deepEqual([presidio.language, presidio.entities, presidio.scoreThreshold], ['en', null, null])
  assert.deepEqual(presidio.facts, { region: 'eu' })
  const bedrock = serviceIn('{ kind: bedrock, guardrail: gr1abc, region: eu-west-1 }')
  assert.ok(bedrock.kind === 'bedrock')
  assert.equal(bedrock.url.reveal(), 'https://bedrock-runtime.eu-west-1.amazonaws.com')
  assert.equal(bedrock.version, 'DRAFT')
})

test('guard services: the fingerprint changes with secrets, which print nowhere', () => {
  const one = serviceIn('{ kind: headgate, url: "http://g", secret: canary-one }')
  const two = serviceIn('{ kind: headgate, url: "http://g", secret: canary-two }')
  const three = serviceIn('{ kind: headgate, url: "http://g", secret: canary-two, headers: { x-key: canary } }')
  assert.equal(new Set([one, two, three].map(({ fingerprint }) => fingerprint)).size, 3)
  assert.doesNotMatch(JSON.stringify([one, two, three]), /canary/)
})

for (const [service, problem] of [
  ['{ url: "http://g" }', /kind/],
  ['{ kind: lakera, url: "http://g" }', /headgate/],
  ['{ kind: headgate }', /headgate with url/],
  ['{ kind: presidio }', /presidio with url/],
  ['{ kind: bedrock, guardrail: x }', /bedrock with region/],
  ['{ kind: bedrock, region: eu-west-1 }', /bedrock with guardrail/],
  ['{ kind: bedrock, guardrail: x, region: "evil.example/" }', /region/],
  ['{ kind: moderation, language: en }', /no language, which moderation does not have/],
  ['{ kind: headgate, url: "ftp://g" }', /http:\/\/ or https:\/\/ address/],
  ['{ kind: headgate, url: guard }', /http:\/\/ or https:\/\/ address/],
  ['{ kind: headgate, url: "http://u:canary@g" }', /credentials belong to headers/],
  ['{ kind: litellm, url: "http://g?key=canary" }', /without one/],
  ['{ kind: litellm, url: "http://g", headers: { host: canary } }', /which the gateway sets itself/],
  ['{ kind: litellm, url: "http://g", headers: { webhook-id: canary } }', /which the gateway sets itself/],
  ['{ kind: litellm, url: "http://g", headers: { "a b": canary } }', /the name of a header/],
  ['{ kind: litellm, url: "http://g", headers: { x-key: "canary\\n" } }', /printable ASCII/],
  ['{ kind: litellm, url: "http://g", timeout: 0 }', /timeout/],
  ['{ kind: litellm, url: "http://g", onError: pass }', /allow/],
  ['{ kind: moderation, thresholds: { violence: 2 } }', /violence/],
] as const)
  test(`guard services: refused: ${service}`, () => {
    const text = lines({ env: {}, yaml: yaml(service) }).join('\n')
    assert.match(text, problem)
    assert.doesNotMatch(text, /canary/)
  })

test('guard services: a rule searches itself or asks, and a moderation masks nothing', () => {
  const both = lines({ env: {}, yaml: yaml('{ kind: litellm, url: "http://g" }', 'action: block, find: [ email ]') })
  assert.match(both.join('\n'), /or a service/)
  assert.match(
    lines({ env: {}, yaml: yaml('{ kind: moderation }', 'action: mask') }).join('\n'),
    /which part of a text/,
  )
})
