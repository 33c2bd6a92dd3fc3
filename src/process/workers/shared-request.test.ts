/** The account of a call in a worker, whose supervisor answers later. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { testAccounts, testClient } from '../../../test/support/accounts.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { SharedAuthority, SUPERVISOR_TIMEOUT } from '../../limits/shared-authority.ts'
import { SharedCounters } from '../../limits/workers/shared-counters.ts'

const KEY = testClient({ concurrent: 1 })

test('a call that ends before the supervisor has answered occupies no slot', async () => {
  const world = stillWorld()
  const counters = new SharedCounters<object>({ now: world.now, date: world.date })
  const authority: SharedAuthority = new SharedAuthority({
    of: () => 2,
    timeout: () => SUPERVISOR_TIMEOUT,
    now: world.now,
    send: (operations) => counters.run(authority, operations, (answers) => authority.onAnswers(answers)),
  })
  const accounts = testAccounts(world, { authority })
  const call = (id: string) => accounts.open({ id, client: KEY, headers: () => undefined }, 'chat')

  const [first, second] = [call('req_first'), call('req_second')]
  const entering = first.admission.enter()
  first.close()
  assert.equal(await entering, null)
  await turn()
  assert.equal(await second.admission.enter(), null)
  second.close()
  await turn()
})
