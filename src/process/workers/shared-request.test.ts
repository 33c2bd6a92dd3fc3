/** The account of a call in a worker, which waits for a lease. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAccounts, testClient } from '../../../test/support/accounts.ts'
import { seededStore } from '../../../test/support/counter-stores.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { CounterMemory } from '../../limits/counter-memory.ts'

const KEY = testClient({ concurrent: 1 })

test('a call that ends before its lease is granted occupies no slot', async () => {
  const world = stillWorld()
  const shared = { store: seededStore(new CounterMemory(world.now), 'a'), rules: () => RULES }
  const accounts = testAccounts(world, { shared })
  const call = (id: string) => accounts.open({ id, client: KEY, headers: () => undefined, method: 'POST' }, 'chat')

  const [first, second] = [call('req_first'), call('req_second')]
  const entering = first.admission.enter()
  first.close()
  await world.advance(100)
  assert.equal(await entering, null)
  const again = second.admission.enter()
  await world.advance(100)
  assert.equal(await again, null)
  second.close()
})

const RULES = { interval: 500, overdraft: 1, wait: 1_000, hurry: 50, starting: () => 1 }
