import assert from 'node:assert/strict'
import type { LookupAddress } from 'node:dns'
import { test } from 'node:test'
import { NameCache, type SystemLookup } from './names.ts'

type Question = { readonly name: string; readonly family: number; readonly done: Parameters<SystemLookup>[2] }

const RULES = { addresses: 'auto', dns: { keep: 1_000, stale: 10_000 } } as const

/** A name server that answers when the test does, and a clock. */
const given = (rules: Parameters<NameCache['under']>[0] = RULES) => {
  const asked: Question[] = []
  const clock = { now: 5_000 }
  const names = new NameCache(
    (name, { family }, done) => asked.push({ name, family, done }),
    () => clock.now,
  )
  const peer = names.under(rules)
  const find = () =>
    new Promise<string>((resolve) =>
      peer.lookup('llm.example', { all: true }, (error, found) =>
        // Not a single address, because all were asked for.
        resolve(error?.code ?? (found as LookupAddress[]).map(({ address }) => address).join(' ')),
      ),
    )
  const answer = (...addresses: string[]) =>
    asked.shift()?.done(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    )
  const fail = (code: string) => asked.shift()?.done(Object.assign(new Error(code), { code }), [])
  return { asked, clock, peer, find, answer, fail }
}

test('names: one question for all that wait, and none while the answer is fresh', async () => {
  const { asked, find, answer } = given()
  const all = [find(), find(), find()]
  assert.equal(asked.length, 1)
  answer('10.0.0.1')
  assert.deepEqual(await Promise.all(all), ['10.0.0.1', '10.0.0.1', '10.0.0.1'])
  assert.equal(await find(), '10.0.0.1')
  assert.equal(asked.length, 0)
})

test('names: after 80 % of its time an answer is used and refreshed', async () => {
  const { asked, clock, find, answer } = given()
  const first = find()
  answer('10.0.0.1')
  await first
  clock.now += 850
  assert.equal(await find(), '10.0.0.1')
  assert.equal(asked.length, 1)
  answer('10.0.0.2')
  assert.equal(await find(), '10.0.0.2')
})

test('names: a name server that fails or hangs leaves the old answer, for a time', async () => {
  const { asked, clock, find, answer, fail } = given()
  const first = find()
  answer('10.0.0.1')
  await first
  clock.now += 2_000
  const failing = find()
  fail('EAI_AGAIN')
  assert.equal(await failing, '10.0.0.1')
  // Without an answer it is used after 250 ms, and then at once.
  assert.equal(await find(), '10.0.0.1')
  clock.now += 300
  const began = performance.now()
  assert.equal(await find(), '10.0.0.1')
  assert.ok(performance.now() - began < 200)
  assert.equal(asked.length, 1)
  clock.now += 20_000
  const late = find()
  fail('EAI_AGAIN')
  assert.equal(await late, 'EAI_AGAIN')
})

test('names: a name that no longer exists is not found, though it was', async () => {
  const { clock, find, answer, fail } = given()
  const first = find()
  answer('10.0.0.1')
  await first
  clock.now += 2_000
  const gone = find()
  fail('ENOTFOUND')
  assert.equal(await gone, 'ENOTFOUND')
})

test('names: a failure without an earlier answer is stated, and not kept', async () => {
  const { asked, find, answer, fail } = given()
  const first = find()
  fail('ENOTFOUND')
  assert.equal(await first, 'ENOTFOUND')
  const second = find()
  assert.equal(asked.length, 1)
  answer('10.0.0.1')
  assert.equal(await second, '10.0.0.1')
})

test('names: a forgotten name is looked up again, and its old answer is used if that fails', async () => {
  const { asked, peer, find, answer, fail } = given()
  const first = find()
  answer('10.0.0.1')
  await first
  peer.forget('llm.example')
  const moved = find()
  assert.equal(asked.length, 1)
  fail('EAI_AGAIN')
  assert.equal(await moved, '10.0.0.1')
})

test('names: several addresses are used in turn, within their family', async () => {
  const { find, answer } = given()
  const first = find()
  answer('2001:db8::1', '2001:db8::2', '10.0.0.1', '10.0.0.2', '10.0.0.3')
  assert.equal(await first, '2001:db8::1 2001:db8::2 10.0.0.1 10.0.0.2 10.0.0.3')
  assert.equal(await find(), '2001:db8::2 2001:db8::1 10.0.0.2 10.0.0.3 10.0.0.1')
})

for (const [addresses, family] of [
  ['auto', 0],
  ['ipv4', 4],
  ['ipv6', 6],
] as const)
  test(`names: ${addresses} asks for the family ${family}`, () => {
    const { asked, find } = given({ ...RULES, addresses })
    void find()
    assert.equal(asked[0]?.family, family)
  })
